/* array.h - arrays that double when they grow, comparison of elements, and search in sorted arrays. Any thread, no
 * locks. */
#ifndef PROFD_PROTO_BASE_ARRAY_H
#define PROFD_PROTO_BASE_ARRAY_H

#include <stddef.h>
#include <stdint.h>

/* Makes room for one more element after `count` elements of `bytes` each. *room: for how many elements there is room.
 * Returns the array, which may have moved; NULL: there is no memory, and the array is not changed. */
void *array_grow(void *array, size_t count, size_t *room, size_t bytes);

/* The same for a variable that holds an array, and one that holds its room. False: there is no memory. */
#define ARRAY_GROW(array, count, room)                                                                                 \
	((count) < (room) || ({                                                                                        \
		 __typeof__(array) array_grown = array_grow(array, count, &(room), sizeof *(array));                   \
		 if (array_grown)                                                                                      \
			 (array) = array_grown;                                                                        \
		 array_grown != NULL;                                                                                  \
	 }))

/* The value that would stand at `place` if the values were sorted; changes their order. No value is negative. `place`
 * is less than their count. */
int64_t array_value_at(int64_t *values, size_t count, size_t place);

/* Compares a and b as qsort() needs it: -1, 0 or 1. Both are evaluated twice. Several can be joined by ?: */
#define ORDER(a, b) (((a) > (b)) - ((a) < (b)))

/* Compares two uint64_t, for qsort() and bsearch(). */
int array_compare_unsigned(const void *a, const void *b);

/* Counts the elements at the beginning for which `before` holds. `before` is an expression of the index `at`. Once it fails
 * for one element it must fail for all that follow. */
#define ARRAY_BEFORE(count, at, before)                                                                                \
	({                                                                                                             \
		size_t array_low = 0, array_high = (count);                                                            \
		while (array_low < array_high) {                                                                       \
			size_t at = array_low + (array_high - array_low) / 2;                                          \
			if (before)                                                                                    \
				array_low = at + 1;                                                                    \
			else                                                                                           \
				array_high = at;                                                                       \
		}                                                                                                      \
		array_low;                                                                                             \
	})

#endif
