/* memory_blocks.c - see memory_blocks.h. */
#include "memory_blocks.h"
#include "memory_calls.h"

#include "proto/events.h"

_Static_assert(ALLOCATION_TAKEN == 1, "as the statement below has it");
#define BLOCKS_SQL(order)                                                                                              \
	"SELECT time, step, parent, device_type, device, operation = 1, known, bytes, total, reserved, address "       \
	"FROM framework_allocations ORDER BY " order

/* Are the rows in order already? Mostly they are. Otherwise SQLite sorts them, which goes to the disk if there are
 * many. */
static bool in_order(struct store *store)
{
	sqlite3_stmt *rows = store_prepare(store, "SELECT time FROM framework_allocations ORDER BY rowid");
	int64_t last = INT64_MIN;
	bool sorted = true;
	while (rows && sorted && !store_over(store) && sqlite3_step(rows) == SQLITE_ROW) {
		int64_t time = sqlite3_column_int64(rows, 0);
		sorted = time >= last;
		last = time;
	}
	sqlite3_finalize(rows);
	return sorted;
}

static struct memory_block block_of(sqlite3_stmt *row)
{
	int64_t known = sqlite3_column_int64(row, 6), bytes = memory_plus(0, sqlite3_column_int64(row, 7));
	bool taken = sqlite3_column_int(row, 5);
	return (struct memory_block){
		.time = memory_plus(0, sqlite3_column_int64(row, 0)),
		.step = memory_number(row, 1),
		.parent = memory_integer(row, 2),
		.type = sqlite3_column_int64(row, 3),
		.device = sqlite3_column_int64(row, 4),
		.bytes = !(known & ALLOCATION_KNOWS_BYTES) ? 0
			 : taken			   ? bytes
							   : -bytes,
		.total = memory_plus(0, sqlite3_column_int64(row, 8)),
		.reserved = memory_plus(0, sqlite3_column_int64(row, 9)),
		.address = sqlite3_column_int64(row, 10),
		.known = (uint8_t)known,
		.taken = taken,
	};
}

bool memory_blocks(struct store *store, bool (*each)(void *user, const struct memory_block *block), void *user)
{
	sqlite3_stmt *rows = store_prepare(store, in_order(store) ? BLOCKS_SQL("rowid") : BLOCKS_SQL("time, rowid"));
	bool more = true;
	while (rows && more && !store_over(store) && sqlite3_step(rows) == SQLITE_ROW) {
		const struct memory_block block = block_of(rows);
		more = each(user, &block);
	}
	sqlite3_finalize(rows);
	return more;
}
