/* gather.h - rows of a comparison: what two sides have of something, added up over their steps, and whether it has moved. One
 * thread. */
#ifndef PROFD_CLIENT_COMPARE_GATHER_H
#define PROFD_CLIENT_COMPARE_GATHER_H

#include "side.h"

enum compare_change {
	CHANGE_NONE, /* within the spread between steps, too little to matter, or not to be tested */
	CHANGE_MORE,
	CHANGE_LESS,
	CHANGE_NEW,  /* A has none of it */
	CHANGE_GONE, /* B has none of it */
};
/* "more" ...; NULL of none. */
const char *compare_change_word(enum compare_change change);

struct compare_figures {
	double sum, calls; /* over all units */
	double seen;	   /* units that have it */
	int64_t mean;	   /* ns a step */
};

struct compare_row {
	char *name;		     /* owned */
	struct compare_figures a, b; /* of the two sides */
	double *values;		     /* for the test: A's, then B's; owned */
	double p;		     /* NaN: was not tested */
	enum compare_change change;
	bool plain; /* joined by a plainer name: a kernel's without its template arguments, a line's without its number */
	/* Of the breakdown. */
	const char *word, *parent; /* parent NULL: of the sum */
	int group;		   /* device, counted from 0 in the process; -1: host */
};

struct compare_table {
	struct compare_row *rows;
	size_t count, room;
	bool recorded_a, recorded_b; /* nothing is compared but where both are */
	size_t groups;		     /* of the breakdown: devices that are compared */
	bool host;		     /* of the breakdown: the step thread is compared */
	char doubt[256];	     /* of the breakdown: why the causes of idle time are not known; "": they are */
};

void compare_free(struct compare_table *table);
/* Takes out rows that nothing is in. */
void compare_drop_empty(struct compare_table *table);

struct gather {
	const struct side *a, *b; /* paired */
	struct compare_table *table;
	void *tree; /* of rows, by name */
};

/* A new row; the pointer is good until the next one. */
struct compare_row *gather_row(struct gather *gather, const char *name);
/* The row of a name, made where there is none. gather_end_names() afterwards. */
struct compare_row *gather_named(struct gather *gather, const char *name);
void gather_end_names(struct gather *gather);
/* Adds what a side's unit has. */
void gather_add(struct gather *gather, struct compare_row *row, const struct side *side, size_t unit, double calls,
		double ns);
/* The nearest whole number; that of a broken file within what can be added up. */
int64_t gather_whole(double ns);
/* Tests the rows together. Their means are there. */
void gather_test(struct gather *gather);

/* The wall time of a step: is B's beyond the spread? NaN: cannot be tested. */
double compare_wall_p(const struct side *a, const struct side *b, enum shift_direction direction);

#endif
