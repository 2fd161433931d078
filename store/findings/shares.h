/* shares.h - how time is shared among lines of the user's own Python, or among nn.Modules. */
#ifndef PROFD_STORE_FINDINGS_SHARES_H
#define PROFD_STORE_FINDINGS_SHARES_H

#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>

/* Lines, and modules, that are told apart; of others the time counts, and they are not named. */
#define SHARES_MOST 64

/* Of a line, which has as many frames as it has callers (file, function: ids in `strings`), or of a module. The function is that of the frame
 * that was seen first. */
struct share {
	int64_t file, line, function, module, ns;
};

/* Zeroed: of nothing. */
struct shares {
	struct share list[SHARES_MOST];
	size_t count;
	int64_t ns; /* of all */
};

/* what->ns is not read. */
void shares_add(struct shares *shares, const struct share *what, int64_t ns);
/* All 0: there is none. */
struct share shares_most(const struct shares *shares);

/* Samples of Python's stacks with the lines that they were in; more conditions may follow. Columns: time, duration, thread, then the line. */
#define SHARES_LINE "f.file, f.line, f.function"
#define SHARES_SAMPLES                                                                                                 \
	"SELECT s.time, s.duration, s.thread, " SHARES_LINE                                                            \
	" FROM samples s JOIN stack_lines l ON l.stack = s.stack JOIN stacks f ON f.id = l.frame WHERE f.file IS NOT " \
	"NULL"
/* The line whose three columns (SHARES_LINE) begin at number 3. */
struct share shares_line(sqlite3_stmt *row);

#endif
