/* sorted.h - sorts arrays that are mostly sorted already, as records from one source are. */
#ifndef PROFD_STORE_BREAKDOWN_SORTED_H
#define PROFD_STORE_BREAKDOWN_SORTED_H

#include <stddef.h>

/* Like qsort(), but equal items keep their order. An array that is sorted, or consists of a few sorted parts, takes
 * about one look at each item. `items` may be NULL with a count of 0. */
void sort_if_needed(void *items, size_t count, size_t size, int (*order)(const void *, const void *));
#endif
