/* recurring.h - what recurs in a capture, and so could be a step of its process. */
#ifndef PROFD_CLIENT_REPORT_RECURRING_H
#define PROFD_CLIENT_REPORT_RECURRING_H

#include "client/reader/reader.h"

#include <stddef.h>
#include <stdint.h>

enum recurring_kind { RECURRING_OPTIMIZER, RECURRING_RANGE, RECURRING_BATCH, RECURRING_OPERATOR, RECURRING_COUNT };

struct recurring {
	enum recurring_kind kind;
	char *name;
	int64_t calls, first;
	double period, square; /* mean of the times from one to the next; mean of the squares of these times */
};

struct recurrings {
	struct recurring *list;
	size_t count;
	int64_t usual; /* what comes this often most likely comes once in an iteration */
};

/* Finds what came at least three times on one thread. Calls inside of one of the same name do not count, as for
 * --step-range and --step-op. Call recurring_free() afterwards. */
void recurring_find(const struct reader *reader, struct recurrings *ret);
void recurring_free(struct recurrings *recurrings);

#endif
