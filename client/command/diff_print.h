/* diff_print.h - what `profd diff` found, as text, JSON and CSV. */
#ifndef PROFD_CLIENT_COMMAND_DIFF_PRINT_H
#define PROFD_CLIENT_COMMAND_DIFF_PRINT_H

#include "client/compare/names.h"
#include "client/compare/where.h"
#include "client/ui/table.h"

struct diff {
	struct side a, b;
	double wall_a, wall_b; /* ns a step */
	double wall_p;	       /* NaN: so few steps cannot show anything */
	struct compare_table breakdown, kinds[COMPARE_KINDS];
	cJSON *differences; /* of the set-up */
	const char *by;	    /* "all", "breakdown" or the name of a kind */
	size_t limit;
	bool full_names; /* names are not shortened */
};

/* The answer in one line; to be freed. */
char *diff_answer(const struct diff *diff);
void diff_print_text(const struct diff *diff);
void diff_print_json(const struct diff *diff);
void diff_print_csv(const struct diff *diff);

#endif
