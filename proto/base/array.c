/* array.c - see array.h. */
#include "array.h"

#include <stdlib.h>

#define FIRST_ROOM 64

void *array_grow(void *array, size_t count, size_t *room, size_t bytes)
{
	if (count < *room)
		return array;
	size_t wanted = *room ? *room * 2 : FIRST_ROOM;
	void *grown = reallocarray(array, wanted, bytes);
	if (grown)
		*room = wanted;
	return grown;
}
