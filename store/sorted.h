/* sorted.h - sorts what is mostly sorted already, as records of one source are. */
#ifndef PROFD_STORE_SORTED_H
#define PROFD_STORE_SORTED_H

#include <stdlib.h>

/* As qsort(); looks first whether there is anything to do. `items` may be NULL with a count of 0. */
static inline void sort_if_needed(void *items, size_t count, size_t size, int (*order)(const void *, const void *))
{
	const char *at = items;
	size_t i = 1;
	while (i < count && order(at + (i - 1) * size, at + i * size) <= 0)
		i++;
	if (i < count)
		qsort(items, count, size, order);
}

#endif
