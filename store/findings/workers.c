/* workers.c - see workers.h. Files of earlier releases lack the table. */
#include "workers.h"

#include <stddef.h>

/* `ran` and `waited` are not read at one instant: together they may be a little more than the time. */
#define MOST_PART 1.05

struct workers workers_load(sqlite3 *db)
{
	static const char *const queries[] = {
		"SELECT count(*), total(duration), total(cpu), total(waited) FROM workers w JOIN strings s ON s.id = w.name WHERE s.text GLOB "
		"'pt_data_worker*'",
		"SELECT count(*), total(duration), total(cpu), total(waited) FROM workers"};
	struct workers found = {0};
	for (size_t i = 0; i < sizeof queries / sizeof *queries && !found.count; i++) {
		sqlite3_stmt *row = NULL;
		if (sqlite3_prepare_v2(db, queries[i], -1, &row, NULL) == SQLITE_OK &&
		    sqlite3_step(row) == SQLITE_ROW) {
			double all = sqlite3_column_double(row, 1);
			double ran = sqlite3_column_double(row, 2), waited = sqlite3_column_double(row, 3);
			/* A file may say anything. */
			if (all > 0 && ran >= 0 && waited >= 0 && ran + waited <= all * MOST_PART)
				found = (struct workers){sqlite3_column_int(row, 0), ran / all, waited / all};
		}
		sqlite3_finalize(row);
	}
	return found;
}
