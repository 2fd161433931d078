/* stack_devices.c - see stack_devices.h. It goes once over samples and launches, side by side, by thread and time. No
 * locks. */
#include "stack_devices.h"

#define SAMPLES_SQL "SELECT rowid, thread, time, duration FROM samples WHERE duration > 0 ORDER BY thread, time, rowid"
/* Operators that no other operator called, with all that they launched, and calls in no operator. An operator in a
 * range inside of another operator is among them, too; open_at() takes it for a part of that one. */
#define LAUNCHING_SQL                                                                                                  \
	"SELECT o.thread, o.start, o.duration, d.total FROM operators o JOIN range_devices d ON d.id = o.id WHERE "    \
	"o.duration > 0 AND d.total > 0 AND (o.parent IS NULL OR o.parent IN (SELECT id FROM ranges)) UNION ALL "      \
	"SELECT thread, start, duration, device_time FROM launches WHERE thread IS NOT NULL AND duration > 0 AND "     \
	"device_time > 0 AND (range IS NULL OR range IN (SELECT id FROM ranges)) ORDER BY 1, 2, 3 DESC"

struct span {
	int64_t thread, start, end, device;
};

struct spans {
	sqlite3_stmt *rows;
	struct span open, next; /* thread -1: none */
};

static const struct span none = {.thread = -1};

static void read_next(struct spans *spans)
{
	if (spans->next.thread < 0 || sqlite3_step(spans->rows) != SQLITE_ROW) {
		spans->next = none;
		return;
	}
	int64_t start = sqlite3_column_int64(spans->rows, 1), end;
	if (__builtin_add_overflow(start, sqlite3_column_int64(spans->rows, 2), &end))
		end = INT64_MAX;
	spans->next =
		(struct span){sqlite3_column_int64(spans->rows, 0), start, end, sqlite3_column_int64(spans->rows, 3)};
}

/* The span that was open on the thread at `time`; NULL: none. Threads and times must not fall from call to call. */
static const struct span *open_at(struct spans *spans, int64_t thread, int64_t time)
{
	while (spans->next.thread >= 0 &&
	       (spans->next.thread < thread || (spans->next.thread == thread && spans->next.start <= time))) {
		/* A span inside of the open one is part of that. */
		if (spans->next.thread != spans->open.thread || spans->next.end > spans->open.end)
			spans->open = spans->next;
		read_next(spans);
	}
	return spans->open.thread == thread && time < spans->open.end ? &spans->open : NULL;
}

static int64_t share_of(const struct span *span, int64_t duration)
{
	uint64_t lasts = (uint64_t)span->end - (uint64_t)span->start;
	unsigned __int128 ns = (unsigned __int128)(uint64_t)span->device * (uint64_t)duration / lasts;
	return ns < INT64_MAX ? (int64_t)ns : INT64_MAX;
}

void stack_devices_estimate(struct store *store)
{
	store_run(store, "CREATE TEMP TABLE sample_devices (id INTEGER PRIMARY KEY, device INTEGER NOT NULL)");
	struct spans spans = {.rows = store_prepare(store, LAUNCHING_SQL), .open = none};
	sqlite3_stmt *read = store_prepare(store, SAMPLES_SQL);
	sqlite3_stmt *write = store_prepare(store, "INSERT INTO temp.sample_devices VALUES (?1, ?2)");
	if (spans.rows && read && write) {
		read_next(&spans);
		while (!store_over(store) && sqlite3_step(read) == SQLITE_ROW) {
			const struct span *open =
				open_at(&spans, sqlite3_column_int64(read, 1), sqlite3_column_int64(read, 2));
			if (!open)
				continue;
			sqlite3_bind_int64(write, 1, sqlite3_column_int64(read, 0));
			sqlite3_bind_int64(write, 2, share_of(open, sqlite3_column_int64(read, 3)));
			store_step(store, write);
		}
	}
	sqlite3_finalize(spans.rows);
	sqlite3_finalize(read);
	sqlite3_finalize(write);
}

void stack_devices_drop(struct store *store)
{
	store_run(store, "DROP TABLE IF EXISTS temp.sample_devices");
}
