/* row_lines.h - the line of the user's own Python that has most of a row of the breakdown: of the host's rows, and of
 * the causes of idle time that lie with the host. */
#ifndef PROFD_STORE_FINDINGS_ROW_LINES_H
#define PROFD_STORE_FINDINGS_ROW_LINES_H

#include "store/breakdown/load.h"

/* file, function: ids in `strings`; file 0: not known. share: 0 to 1, of the row. */
struct row_line {
	int64_t file, line, function;
	double share;
};

struct row_lines {
	bool recorded; /* stacks of Python were recorded; otherwise no line is known */
	struct row_line host[HOST_ROWS];
	struct row_line (*idle)[IDLE_ROWS]; /* by index in breakdown.devices */
	size_t devices;
};

/* For the steps [first, last) of a capture that was read as a whole. The operators that ran in a row tell its line,
 * each by its own time, if they have stacks and fill at least half of the row. Otherwise samples of the thread do, if
 * at least ten were taken in the row. The thread is the one that steps; for idle time, it is the one that launched
 * the operation after it, if that one did anything then. A thread that runs a backward runs no Python: the samples of
 * the thread that steps count for it. A capture that would take too long, as a hostile file does, has lines for no
 * row. False: no memory, or SQLite's error. Call row_lines_free() in either case. */
bool row_lines_find(const struct breakdown_capture *capture, sqlite3 *db, const struct breakdown_watch *watch,
		    size_t first, size_t last, struct row_lines *ret, int *ret_error);
/* Does the file have anything that could tell a line? */
bool row_lines_recorded(sqlite3 *db);
void row_lines_free(struct row_lines *lines);

#endif
