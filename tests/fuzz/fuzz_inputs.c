/* fuzz_inputs.c - the decoder of inputs descriptions over hostile words: no crash, texts that end and balance. */
#include "proto/inputs.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const char *text, int error)
{
	size_t bytes = strnlen(text, INPUTS_TEXT_BYTES);
	if (bytes == INPUTS_TEXT_BYTES || (error ? bytes != 0 : bytes < 2 || text[0] != '[' || text[bytes - 1] != ']'))
		abort();
	long depth = 0;
	for (size_t i = 0; i < bytes; i++) {
		depth += text[i] == '[' ? 1 : text[i] == ']' ? -1 : 0;
		if (depth < 0)
			abort();
	}
	if (depth)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct inputs_text text;
	/* Of exactly this size, so that the sanitizer sees a read past the end. */
	size_t n = size / 4;
	uint32_t *words = malloc(n ? n * 4 : 1);
	if (!words)
		return 0;
	memcpy(words, data, n * 4);
	memset(&text, 'x', sizeof text);
	int error = inputs_to_json(words, n, &text);
	check(text.dims, error);
	check(text.types, error);
	check(text.strides, error);
	check(text.concrete, error);
	free(words);
	return 0;
}
