/* collections.c - see collections.h. Collections do not overlap: a process has one collector, which does not run
 * twice at a time. In a hostile file they may; then some of them are not found, which does no harm. */
#include "collections.h"

#include "proto/base/array.h"

#include <stdlib.h>

/* Further ones are not read. A live capture has far fewer. */
#define COLLECTIONS_MOST (1u << 20)

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

struct reading {
	struct collections *collections;
	struct scan *scan;
};

static void take(void *context, sqlite3_stmt *row)
{
	const struct reading *reading = context;
	struct collections *collections = reading->collections;
	int64_t start = bounded(row_int(row, 1)), end = end_of(start, row_int(row, 2));
	int64_t error = row_int(row, 3), end_error = row_int(row, 4);
	if (end <= start || error < 0 || end_error < 0 || collections->count == COLLECTIONS_MOST)
		return;
	if (!ARRAY_GROW(collections->items, collections->count, collections->room)) {
		scan_no_memory(reading->scan);
		return;
	}
	/* The start lies before the end, whatever the errors are. */
	error = least(error, (end - start) / 2);
	end_error = least(end_error, (end - start) / 2);
	collections->items[collections->count++] = (struct collection){.row = row_int(row, 0),
								       .start = start,
								       .end = end,
								       .before = start - error,
								       .begun = start + error,
								       .ran = end - end_error,
								       .gone = end + end_error,
								       .thread = (uint32_t)row_int(row, 5),
								       .generation = row_int(row, 6) & 3};
}

void collections_read(struct collections *collections, struct scan *scan)
{
	struct reading reading = {collections, scan};
	if (scan_has(scan->db, "garbage_collections", NULL))
		scan_each(
			scan,
			"SELECT rowid, start, duration, error, end_error, thread, generation FROM garbage_collections WHERE thread <> 0 "
			"ORDER BY start, rowid",
			take, &reading);
}

/* The collection had not begun at `time`. It began soon after the last such time: the thread's Python does little
 * without an operator. */
static void put_off(struct collection *item, int64_t time)
{
	if (time > item->before && time <= item->begun)
		item->start = item->before = time;
}

/* The collection had ended at `time`. It ended soon before the first such time. */
static void cut_short(struct collection *item, int64_t time)
{
	if (time > item->ran && time <= item->gone)
		item->end = item->gone = time;
}

void collections_take(struct collections *collections, uint32_t thread, int64_t start, int64_t end)
{
	const int64_t times[] = {start, end};
	struct collection *items = collections->items;
	for (size_t i = 0; collections->count && i < sizeof times / sizeof *times; i++) {
		size_t next = ARRAY_BEFORE(collections->count, middle, items[middle].begun < times[i]);
		size_t passed = ARRAY_BEFORE(collections->count, middle, items[middle].ran < times[i]);
		if (next < collections->count && items[next].thread == thread)
			put_off(&items[next], times[i]);
		if (passed && items[passed - 1].thread == thread)
			cut_short(&items[passed - 1], times[i]);
	}
}

int64_t collection_start_error(const struct collection *collection)
{
	int64_t earlier = collection->start - collection->before, later = collection->begun - collection->start;
	return earlier > later ? earlier : later;
}

int64_t collection_end_error(const struct collection *collection)
{
	int64_t earlier = collection->end - collection->ran, later = collection->gone - collection->end;
	return earlier > later ? earlier : later;
}

void collections_mark(const struct collections *collections, struct activity *activity)
{
	for (size_t i = 0; i < collections->count; i++) {
		const struct collection *item = &collections->items[i];
		activity_add(activity, item->thread, item->start, item->end, DOING_GARBAGE);
	}
}

void collections_free(struct collections *collections)
{
	free(collections->items);
	*collections = (struct collections){0};
}
