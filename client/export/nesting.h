/* nesting.h - which track a slice goes on. Viewers want the slices of one track to nest strictly; ranges and operators
 * of one thread do, but for those that another thread closed, that were closed in another order than they were opened,
 * or that cross the boundary of a step. These are moved to sibling tracks ("lanes") of their thread.
 *
 * Steps come first, then what ends later and starts earlier. Memory: 28 bytes an event while it runs;
 * captures of more than NESTING_ROWS_IN_MEMORY events are sorted by SQLite in a temporary file instead. */
#ifndef PROFD_CLIENT_EXPORT_NESTING_H
#define PROFD_CLIENT_EXPORT_NESTING_H

#include "../reader.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NESTING_ROWS_IN_MEMORY 2500000
/* Lanes of one thread, its own track (0) included; what does not fit on any is asynchronous. */
#define NESTING_LANES 16
#define NESTING_ASYNC 255

enum nesting_table { NESTING_RANGES, NESTING_OPERATORS, NESTING_TABLES };

/* A row that is not on its thread's own track. */
struct nesting_move {
	int64_t row; /* rowid */
	uint32_t thread;
	uint8_t lane; /* 1.., or NESTING_ASYNC */
};

struct nesting_thread {
	uint32_t thread;
	uint8_t lanes; /* in use, 1.. */
};

struct nesting {
	struct nesting_move *moves[NESTING_TABLES]; /* by row */
	size_t move_count[NESTING_TABLES];
	struct nesting_thread *threads; /* all that ran a range or operator, by number */
	size_t thread_count;
	int64_t earliest; /* start of a range or operator, where before the base; else 0 or later */
};

/* Rows of a table that are to be scanned: rowids first..last, `count` of them; last < first where there are none. */
struct nesting_rows {
	int64_t first, last, count;
};
/* 0, or -EFBIG where there are more than 2^31. */
int nesting_rows(const struct reader *r, const char *table, struct nesting_rows *ret_rows);

/* Reads all ranges (but start/end ones, which need no track), operators and steps. readers[0..threads) are of one
 * file. 0 or a negative errno. */
int nesting_find(struct nesting *n, struct reader *readers, unsigned threads);
void nesting_deinit(struct nesting *n);

/* Lane of a row; *at is the caller's place in the list (0 at first) and makes a scan in the order of rows cheap. */
static inline uint8_t nesting_lane(const struct nesting *n, enum nesting_table table, int64_t row, size_t *at)
{
	const struct nesting_move *moves = n->moves[table];
	size_t i = *at, count = n->move_count[table];
	if (count == 0)
		return 0;
	if (i > 0 && moves[i - 1].row >= row)
		i = 0;
	if (i == 0) { /* a scan that begins */
		size_t high = count;
		while (i < high) {
			size_t middle = i + (high - i) / 2;
			if (moves[middle].row < row)
				i = middle + 1;
			else
				high = middle;
		}
	}
	while (i < count && moves[i].row < row)
		i++;
	*at = i;
	return i < count && moves[i].row == row ? moves[i].lane : 0;
}

#endif
