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

/* Moves the values of [low, high) without this bit to the front. Returns where the others begin. */
static size_t part(int64_t *values, size_t low, size_t high, int64_t bit)
{
	size_t border = low;
	for (size_t i = low; i < high; i++) {
		if (values[i] & bit)
			continue;
		int64_t value = values[i];
		values[i] = values[border];
		values[border++] = value;
	}
	return border;
}

/* Splits by one bit after another, from the highest. So no order of the values makes it slow. */
int64_t array_value_at(int64_t *values, size_t count, size_t place)
{
	size_t low = 0, high = count;
	int64_t bits = 0;
	for (size_t i = 0; i < count; i++)
		bits |= values[i];
	for (int bit = bits ? 63 - __builtin_clzll((unsigned long long)bits) : -1; bit >= 0 && high - low > 1; bit--) {
		size_t border = part(values, low, high, INT64_C(1) << bit);
		if (place < border)
			high = border;
		else
			low = border;
	}
	return values[place];
}

int array_compare_unsigned(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return ORDER(x, y);
}
