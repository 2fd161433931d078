/* findings_stored.h - the breakdown and the verdict in the tables of a capture file: breakdown, breakdown_lines, findings, finding_intervals. */
#ifndef PROFD_STORE_FINDINGS_STORED_H
#define PROFD_STORE_FINDINGS_STORED_H

#include "store/findings/findings.h"
#include "store/findings/row_lines.h"

struct store;

/* Writes them in the open transaction. A breakdown of very many rows is left out: whoever asks for it computes it
 * again. */
void findings_write(struct store *store, const struct breakdown_capture *capture, const struct findings *findings,
		    const struct row_lines *lines);

/* Reads them. True: the file has both. capture: only steps and rows, no activity, operations, idles or stretches.
 * False: the file lacks them (*ret_error 0), or as breakdown_capture_load(). Call breakdown_capture_free() afterwards
 * in either case. */
bool findings_read(sqlite3 *db, const struct breakdown_watch *watch, struct breakdown_capture *capture,
		   struct findings *ret, int *ret_error);

/* Reads the lines of rows, from a file whose breakdown was read and which has the table breakdown_lines. False: as
 * breakdown_capture_load(). Call row_lines_free() in either case. */
bool row_lines_read(sqlite3 *db, const struct breakdown_watch *watch, const struct breakdown *breakdown,
		    struct row_lines *ret, int *ret_error);

#endif
