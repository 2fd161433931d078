/* take.h - numbers taken one after the other out of a fuzz target's input; zeros where it has ended. */
#ifndef PROFD_FUZZ_TAKE_H
#define PROFD_FUZZ_TAKE_H

#include <stddef.h>
#include <stdint.h>

struct input {
	const uint8_t *at;
	size_t left;
};

static inline unsigned take(struct input *input)
{
	if (!input->left)
		return 0;
	input->left--;
	return *input->at++;
}

static inline uint64_t take_bytes(struct input *input, size_t bytes)
{
	uint64_t value = 0;
	for (size_t i = 0; i < bytes; i++)
		value |= (uint64_t)take(input) << 8 * i;
	return value;
}

#endif
