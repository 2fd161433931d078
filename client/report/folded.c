/* folded.c - see folded.h. No state. */
#include "folded.h"
#include "ids.h"
#include "query.h"

#include "client/ui/text.h"

#include "proto/events.h"

#include "store/fold_rule.h"

#include <sqlite3.h>
#include <stdlib.h>

#define OPERATORS "SELECT 1 FROM operators WHERE profd_row(thread, id, parent, name, step, start, self, flags)"
/* The ranges that are children of a parent. */
#define RANGES "SELECT parent FROM ranges WHERE parent IS NOT NULL AND NOT flags & 2 AND source <> 2"
_Static_assert(EVENT_FLAG_ASYNC == 2 && RANGE_SOURCE_NVTX_START_END == 2, "as the statement has them");

struct row {
	int64_t id, parent; /* 0: none */
	struct fold_row fold;
	int64_t step, start, self;
};

struct rows {
	struct row *list;
	size_t count, room;
	struct id_places places; /* of several with one id, the first one has it */
};

static struct fold_row *find(const struct rows *rows, int64_t id)
{
	size_t place = id ? id_places_find(&rows->places, id) : ID_PLACE_NONE;

	return place == ID_PLACE_NONE ? NULL : &rows->list[place].fold;
}

static void take_operator(void *context, sqlite3_value **row)
{
	struct rows *rows = context;

	NEED_ROOM(rows->list, rows->count, rows->room);
	rows->list[rows->count++] = (struct row){
		.id = int_of(row[1]),
		.parent = int_of(row[2]),
		.fold = {.name = int_of(row[3]), .thread = int_of(row[0]), .apart = int_of(row[7]) & EVENT_FLAG_ASYNC},
		.step = int_of(row[4]),
		.start = int_of(row[5]),
		.self = int_of(row[6]),
	};
}

static void count_child(const struct rows *rows, int64_t parent)
{
	struct fold_row *of_parent = find(rows, parent);

	if (of_parent)
		of_parent->children++;
}

static void count_children(const struct rows *rows, const struct reader *reader)
{
	sqlite3_stmt *ranges = report_prepare(reader, RANGES);

	for (size_t i = 0; i < rows->count; i++)
		if (!rows->list[i].fold.apart)
			count_child(rows, rows->list[i].parent);
	while (report_next(reader, ranges))
		count_child(rows, sqlite3_column_int64(ranges, 0));
}

static bool is_folded(const struct rows *rows, const struct row *row)
{
	const struct fold_row *parent = row->id ? find(rows, row->parent) : NULL;

	return parent && fold_row_is_folded(&row->fold, parent);
}

void folded_each(const struct reader *reader, void (*take)(void *context, const struct folded_operator *operator),
		 void *context)
{
	struct rows rows = {0};

	report_scan(reader, OPERATORS, 0, take_operator, &rows);
	id_places_make(&rows.places, rows.list ? &rows.list->id : NULL, sizeof *rows.list, rows.count);
	count_children(&rows, reader);
	for (size_t i = 0; i < rows.count; i++) {
		const struct row *row = &rows.list[i];
		const struct folded_operator operator= {.step = row->step,
							.thread = row->fold.thread,
							.start = row->start,
							.self = row->self,
							.folded = is_folded(&rows, row)};

		take(context, &operator);
	}
	id_places_free(&rows.places);
	free(rows.list);
}
