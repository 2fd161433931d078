/* recurring.h - what recurs in a capture: what could be a step of its process. */
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
	double period, square; /* means of the times from one to the next, and of their squares */
};

struct recurrings {
	struct recurring *list;
	size_t count;
	int64_t usual; /* what comes so often comes once an iteration, most likely */
};

/* Fills it: what came at least three times in one thread, those inside of one of the same name apart: --step-range and
 * --step-op count likewise. To be given to the other. */
void recurring_find(const struct reader *reader, struct recurrings *ret);
void recurring_free(struct recurrings *recurrings);

#endif
