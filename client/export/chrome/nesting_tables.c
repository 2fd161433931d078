/* nesting_tables.c - see nesting_tables.h. */
#include "nesting_tables.h"

#include "proto/events.h"

#include <errno.h>
#include <stdio.h>

#define DEVICE_TRACK(device, stream) "((((" device " & 1073741823) + 1) << 32) | (" stream " & 4294967295))"
#define HAS_TIME "start IS NOT NULL"
const struct nesting_source nesting_sources[NESTING_TABLES] = {
	[NESTING_RANGES] = {"ranges", "thread & 4294967295", "source <> 2"},
	[NESTING_OPERATORS] = {"operators", "thread & 4294967295", "1"},
	[NESTING_API_CALLS] = {"api_calls", "thread & 4294967295", "1"},
	[NESTING_OVERHEADS] = {"overheads", "2305843009213693952", "1"},
	[NESTING_KERNELS] = {"kernel_records", DEVICE_TRACK("device", "stream"), HAS_TIME},
	[NESTING_COPIES] = {"copy_records", DEVICE_TRACK("device", "stream"), HAS_TIME},
	[NESTING_SETS] = {"set_records", DEVICE_TRACK("device", "stream"), HAS_TIME},
	[NESTING_GRAPHS] = {"graph_records", DEVICE_TRACK("device", "stream"), HAS_TIME},
	[NESTING_SYNCS] = {"syncs", DEVICE_TRACK("profd_device(context)", "stream") " | 4611686018427387904", HAS_TIME},
};
_Static_assert(RANGE_SOURCE_NVTX_START_END == 2, "the queries leave out start/end ranges");
_Static_assert(NESTING_OWN == UINT64_C(2305843009213693952), "as in the query");
_Static_assert(NESTING_WAITS == UINT64_C(4611686018427387904), "as in the query");

bool nesting_has_table(int table, int64_t schema)
{
	return nesting_sources[table].table && (schema >= 2 || table < NESTING_TABLES_OF_1);
}

int nesting_rows(const struct reader *r, const char *table, struct nesting_rows *ret_rows)
{
	char sql[96];
	*ret_rows = (struct nesting_rows){.first = 0, .last = -1};
	/* With a condition the rows are counted one by one: SQLite's own way to count is without bounds in a broken
	 * file. */
	snprintf(sql, sizeof sql, "SELECT count(*) FROM %s WHERE rowid > -1", table);
	ret_rows->count = reader_count(r, sql, -1);
	if (ret_rows->count <= 0)
		return ret_rows->count < 0 ? -EIO : 0;
	snprintf(sql, sizeof sql, "SELECT min(rowid) FROM %s", table);
	ret_rows->first = reader_count(r, sql, 0);
	snprintf(sql, sizeof sql, "SELECT max(rowid) FROM %s", table);
	ret_rows->last = reader_count(r, sql, -1);
	/* Rows arrive with rising numbers and none is deleted. */
	if (ret_rows->first < 0 || ret_rows->last < ret_rows->first || ret_rows->last > INT64_MAX / 2)
		return -EIO;
	if (ret_rows->last - ret_rows->first >= INT32_MAX)
		return -EFBIG;
	return 0;
}
