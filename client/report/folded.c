/* folded.c - see folded.h. No state. */
#include "folded.h"
#include "query.h"

#include "client/ui/text.h"

#include "proto/base/numbered.h"
#include "proto/events.h"

#include "store/fold_rule.h"

#include <sqlite3.h>
#include <stdlib.h>

#define OPERATORS "SELECT id, parent, name, step, thread, start, self, flags & 2 FROM operators"
/* Ranges that are a parent's children too. */
#define RANGES "SELECT parent FROM ranges WHERE parent IS NOT NULL AND NOT flags & 2 AND source <> 2"
_Static_assert(EVENT_FLAG_ASYNC == 2 && RANGE_SOURCE_NVTX_START_END == 2, "as the statements have them");

struct row {
	int64_t id, parent; /* 0: none */
	int64_t name;
	bool async;
	struct folded_operator operator;
};

struct rows {
	struct row *list;
	size_t count, room;
	struct numbered ids; /* struct fold_row of the operator of an id; of several the first has it */
};

static struct fold_row *find(const struct rows *rows, int64_t id)
{
	uint32_t number = id ? numbered_find(&rows->ids, id, 0, 0) : NUMBERED_NONE;

	return number == NUMBERED_NONE ? NULL : numbered_at(&rows->ids, number);
}

static struct fold_row row_of(const struct row *row)
{
	return (struct fold_row){.name = row->name, .thread = row->operator.thread, .apart = row->async};
}

static void add_id(struct rows *rows, const struct row *row)
{
	size_t before = rows->ids.count;
	struct fold_row *of_id = need(numbered_add(&rows->ids, row->id, 0, 0));

	if (rows->ids.count > before)
		*of_id = row_of(row);
}

static void read_operators(struct rows *rows, const struct reader *reader)
{
	sqlite3_stmt *statement = report_prepare(reader, OPERATORS);

	while (report_next(reader, statement)) {
		NEED_ROOM(rows->list, rows->count, rows->room);
		struct row *row = &rows->list[rows->count++];

		*row = (struct row){
			.id = sqlite3_column_int64(statement, 0),
			.parent = sqlite3_column_int64(statement, 1),
			.name = sqlite3_column_int64(statement, 2),
			.async = sqlite3_column_int(statement, 7) != 0,
			.operator= {.step = sqlite3_column_int64(statement, 3),
				    .thread = sqlite3_column_int64(statement, 4),
				    .start = sqlite3_column_int64(statement, 5),
				    .self = sqlite3_column_int64(statement, 6)},
		};
		if (row->id)
			add_id(rows, row);
	}
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
		if (!rows->list[i].async)
			count_child(rows, rows->list[i].parent);
	while (report_next(reader, ranges))
		count_child(rows, sqlite3_column_int64(ranges, 0));
}

static bool is_folded(const struct rows *rows, const struct row *row)
{
	const struct fold_row *parent = row->id ? find(rows, row->parent) : NULL;
	struct fold_row own = row_of(row);

	return parent && fold_row_is_folded(&own, parent);
}

void folded_each(const struct reader *reader, void (*take)(void *context, const struct folded_operator *operator),
		 void *context)
{
	struct rows rows = {.ids = {.bytes = sizeof(struct fold_row)}};

	read_operators(&rows, reader);
	count_children(&rows, reader);
	for (size_t i = 0; i < rows.count; i++) {
		rows.list[i].operator.folded = is_folded(&rows, &rows.list[i]);
		take(context, &rows.list[i].operator);
	}
	numbered_deinit(&rows.ids);
	free(rows.list);
}
