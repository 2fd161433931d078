/* row_lines.h - at which line of the user's own Python most of a row of the breakdown was: of the host's rows, and of the causes of idle time for
 * which the host stands. */
#ifndef PROFD_STORE_FINDINGS_ROW_LINES_H
#define PROFD_STORE_FINDINGS_ROW_LINES_H

#include "store/breakdown/load.h"

/* file, function: ids in `strings`; file 0: not known. share: 0 to 1, of the row. */
struct row_line {
	int64_t file, line, function;
	double share;
};

struct row_lines {
	bool recorded; /* stacks of Python were: else no line is known */
	struct row_line host[HOST_ROWS];
	struct row_line (*idle)[IDLE_ROWS]; /* by index in breakdown.devices */
	size_t devices;
};

/* Of the steps [first, last) of a capture that was read as a whole. Where operators that ran in a row have stacks, and fill at least half of it, each by
 * its own time, they tell the line; else samples of the thread do, where at least ten were taken in the row. The thread is the one that steps; of idle
 * time the one that launched what ended it, where it did anything then. One that runs no Python, as it runs a backward, has the samples of the one that
 * steps. A capture that would take too long, as a hostile file does, has lines for no row. False: no memory, or SQLite's error. row_lines_free() in either case. */
bool row_lines_find(const struct breakdown_capture *capture, sqlite3 *db, const struct breakdown_watch *watch,
		    size_t first, size_t last, struct row_lines *ret, int *ret_error);
/* Is there anything that could tell a line? */
bool row_lines_recorded(sqlite3 *db);
void row_lines_free(struct row_lines *lines);

#endif
