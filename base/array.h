/* array.h - arrays that grow, twice as large each time. Any thread, no locks. */
#ifndef PROFD_BASE_ARRAY_H
#define PROFD_BASE_ARRAY_H

#include <stddef.h>

/* Makes room behind `count` elements of `bytes` each for one more. *room: of how many elements there is room. Returns the array, which
 * may have moved; NULL: there is no memory, and the array is as it was. */
void *array_grow(void *array, size_t count, size_t *room, size_t bytes);

#endif
