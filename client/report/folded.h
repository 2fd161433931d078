/* folded.h - all operators of a capture, and for each whether it is one call with its parent, by the rule of
 * store/fold_rule.h. For views that look at every operator: in SQLite, a join of a million operators with themselves
 * takes seconds. One thread. */
#ifndef PROFD_CLIENT_REPORT_FOLDED_H
#define PROFD_CLIENT_REPORT_FOLDED_H

#include "client/reader/reader.h"

#include <stdbool.h>
#include <stdint.h>

struct folded_operator {
	int64_t step;	     /* its ordinal; 0: none */
	int64_t thread;	     /* the kernel's id */
	int64_t start, self; /* ns */
	bool folded;	     /* it is one call with its parent, and only its own time counts */
};

/* Calls `take` for each operator of the file, in the order of its rows. Even for a hostile file, the time grows only
 * with the number of rows. If the file cannot be read, the program ends with a sentence. */
void folded_each(const struct reader *reader, void (*take)(void *context, const struct folded_operator *operator),
		 void *context);

#endif
