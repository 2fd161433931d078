/* fuzz_agent_dict.c - dicts, attributes, numbers and texts of a hostile process that says that it runs Python. The first byte says which
 * release it is. See memory.h. */
#include "proto/python/code.h"
#include "proto/python/dict.h"
#include "memory.h"

#include <stdlib.h>
#include <string.h>

#define READS 2000
#define BLOCKS 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void read_value(struct python *python, uint64_t object)
{
	uint64_t number;
	char text[64];
	if (python_number(python, object, &number) && number >> 60)
		abort();
	if (python_text(python, object, text, sizeof text) && strnlen(text, sizeof text) == sizeof text)
		abort();
	python_is_a(python, object, "collections.deque");
}

static void read_items(struct python *python, const struct python_items *items)
{
	uint64_t block[PYTHON_BLOCK * 3];
	uint32_t place = 1, n;
	if (items->link_count > PYTHON_ITEMS_LINKS || items->keys.size > 24 || items->keys.key > 8)
		abort();
	uint64_t found = python_items_find(python, items, "key", &place);
	if (found && place >= items->keys.count)
		abort();
	read_value(python, found);
	for (uint32_t first = 0, i = 0; i < BLOCKS && (n = python_keys_block(python, &items->keys, first, block));
	     i++) {
		read_value(python, python_word(&python->memory, python_items_slot(items, first)));
		read_value(python, block[items->keys.key / 8]);
		first += n;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	if (n < 64)
		return 0;
	struct input input = {data + 1, n - 1};
	struct python python = {.memory = {read_input, &input, READS}, .minor = 9 + data[0] % 6};
	/* Addresses that lead to the input's beginning. */
	uint64_t object = input.size * 4096;
	struct python_items items;
	if (python_dict_open(&python, object, &items))
		read_items(&python, &items);
	if (python_attributes_open(&python, object, &items))
		read_items(&python, &items);
	read_value(&python, object);
	python_module(&python, "torch", NULL);
	return 0;
}
