/* shift.h - do the values of two groups differ by more than the values of each group differ among themselves? An exact permutation
 * test: how many of all ways to deal the values out to two groups of these sizes set them as far apart as they are? It needs no
 * assumption on how the values are distributed. Rows that are tested together share their chance of a false alarm (Westfall and
 * Young's step-down maxima). The same values give the same answer every time. Pure. docs/compare.md says it for users. */
#ifndef PROFD_CLIENT_COMPARE_SHIFT_H
#define PROFD_CLIENT_COMPARE_SHIFT_H

#include <stdbool.h>
#include <stddef.h>

/* A row has moved where its p is at most this: 5 % for "more" and 5 % for "less". */
#define SHIFT_LEVEL 0.1
/* A question with one direction ("slower?") has half of it. */
#define SHIFT_LEVEL_ONE 0.05
/* More values of a group are not of use to the test. */
#define SHIFT_MOST 64

enum shift_direction { SHIFT_EITHER, SHIFT_UP };

/* Can groups of these sizes show anything at all? Even values that lie apart are dealt out like that by chance. */
bool shift_possible(size_t a, size_t b, enum shift_direction direction);

/* `values` has `rows` rows of a + b values, those of group A first. p[row]: the chance that any of the rows is as far apart as this
 * one is, if no row has changed; SHIFT_UP counts only where B is more. `least` is added to the error of each row's difference: what
 * is smaller than that is of no interest, however exact. NaN where the test is not possible. */
void shift_test(const double *values, size_t rows, size_t a, size_t b, double least, enum shift_direction direction,
		double *p);

/* Has a series moved, and since when? Of all places at which it can be cut in two the one where both parts lie farthest apart; *p:
 * the part of all orders of the values that have a place where they lie as far apart (9,999 of them are drawn). Index of the first
 * value after it; 0, with p NaN, of less than SHIFT_SERIES values, which can show nothing. */
size_t shift_since(const double *values, size_t count, double *p);
#define SHIFT_SERIES 7

/* Which of `units` neighbouring values a group's test gets. Neighbours resemble each other: where both groups have many, they are
 * averaged, as many for each group, so that no group's values are steadier than the other's for that alone. */
struct shift_blocks {
	size_t length; /* units that are averaged into a value */
	size_t every;  /* of the values, each so manyth is used */
	size_t count;  /* values */
};
struct shift_blocks shift_blocks_of(size_t units, size_t others);
/* The value that a unit belongs to; SIZE_MAX: none. */
size_t shift_block(const struct shift_blocks *blocks, size_t unit);

#endif
