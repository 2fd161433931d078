/* shares.h - how lines of the user's own Python, or nn.Modules, share time. */
#ifndef PROFD_STORE_FINDINGS_SHARES_H
#define PROFD_STORE_FINDINGS_SHARES_H

#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>

/* So many lines, or modules, are told apart. The time of others counts, but they have no names. */
#define SHARES_MOST 64

/* A line has as many frames as callers (file, function: ids in `strings`); or a module. The function is that of the
 * frame that was seen first. */
struct share {
	int64_t file, line, function, module, ns;
};

/* Zeroed, it is empty. */
struct shares {
	struct share list[SHARES_MOST];
	size_t count;
	int64_t ns; /* of all */
};

/* what->ns is not read. */
void shares_add(struct shares *shares, const struct share *what, int64_t ns);
/* All 0: there is none. */
struct share shares_most(const struct shares *shares);

/* Samples of Python's stacks with their lines; more conditions may follow. Columns: time, duration, thread, then the
 * line. */
#define SHARES_LINE "f.file, f.line, f.function"
#define SHARES_SAMPLES                                                                                                 \
	"SELECT s.time, s.duration, s.thread, " SHARES_LINE                                                            \
	" FROM samples s JOIN stack_lines l ON l.stack = s.stack JOIN stacks f ON f.id = l.frame WHERE f.file IS NOT " \
	"NULL"
/* The line, whose three columns (SHARES_LINE) begin at column 3. */
struct share shares_line(sqlite3_stmt *row);

#endif
