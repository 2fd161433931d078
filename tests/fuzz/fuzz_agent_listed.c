/* fuzz_agent_listed.c - torch's list of compilations in the memory of a job, as the agent reads it. What Python's own objects hold is
 * fuzz_agent_dict.c's: here an entry has any attributes, and the list's blocks are the input, which repeats itself.
 * wrap: python_module python_dict_find python_is_a python_attributes_open python_items_find python_has_flag python_text python_number */
#include "agent/compile/listed.h"
#include "proto/python/dict.h"
#include "memory.h"

#include <stdlib.h>
#include <string.h>

#define READS 20000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
uint64_t __wrap_python_module(struct python *python, const char *name, uint32_t *place);
uint64_t __wrap_python_dict_find(struct python *python, uint64_t dict, const char *key, uint32_t *place);
bool __wrap_python_is_a(struct python *python, uint64_t object, const char *type);
bool __wrap_python_attributes_open(struct python *python, uint64_t object, struct python_items *ret);
uint64_t __wrap_python_items_find(struct python *python, const struct python_items *items, const char *key,
				  uint32_t *place);
bool __wrap_python_has_flag(struct python *python, uint64_t object, uint64_t flag, uint64_t *ret_type);
bool __wrap_python_text(struct python *python, uint64_t object, char *to, size_t bytes);
bool __wrap_python_number(struct python *python, uint64_t object, uint64_t *ret);

/* Each answer takes the next byte, from the middle on. */
struct answers {
	struct input input; /* first: read_input() gets it */
	size_t asked;
};

static uint8_t answer(struct python *python)
{
	struct answers *answers = python->memory.context;
	if (python->memory.reads_left)
		python->memory.reads_left--;
	return python->memory.reads_left ? answers->input.bytes[answers->asked++ % answers->input.size] : 0;
}

uint64_t __wrap_python_module(struct python *python, const char *name, uint32_t *place)
{
	(void)name;
	(void)place;
	return (uint64_t)answer(python) * 64;
}

uint64_t __wrap_python_dict_find(struct python *python, uint64_t dict, const char *key, uint32_t *place)
{
	(void)dict;
	(void)key;
	(void)place;
	return (uint64_t)answer(python) * 64;
}

bool __wrap_python_is_a(struct python *python, uint64_t object, const char *type)
{
	(void)object;
	(void)type;
	return answer(python);
}

bool __wrap_python_attributes_open(struct python *python, uint64_t object, struct python_items *ret)
{
	memset(ret, 0, sizeof *ret);
	return object && answer(python);
}

uint64_t __wrap_python_items_find(struct python *python, const struct python_items *items, const char *key,
				  uint32_t *place)
{
	(void)items;
	(void)key;
	(void)place;
	return (uint64_t)answer(python) * 64;
}

bool __wrap_python_has_flag(struct python *python, uint64_t object, uint64_t flag, uint64_t *ret_type)
{
	(void)object;
	(void)flag;
	*ret_type = 1;
	return answer(python) & 1;
}

/* As long as there is room for. */
bool __wrap_python_text(struct python *python, uint64_t object, char *to, size_t bytes)
{
	memset(to, 'a' + (int)(object % 26), bytes - 1);
	to[bytes - 1] = 0;
	to[answer(python) % bytes] = 0;
	return answer(python) & 1;
}

bool __wrap_python_number(struct python *python, uint64_t object, uint64_t *ret)
{
	*ret = object * answer(python);
	return answer(python) & 1;
}

static bool ends(const char *text, size_t bytes)
{
	return strnlen(text, bytes) < bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static struct listed listed;
	if (n < 100)
		return 0;
	struct answers answers = {{data + 1, n - 1}, n / 2};
	struct python python = {.memory = {read_input, &answers, READS}, .minor = 13};
	enum listed_result result = listed_read(&python, data[0] == 255 ? UINT64_MAX : data[0], &listed);
	if (listed.count > LISTED_MOST)
		abort();
	for (uint32_t i = 0; i < listed.count && result == LISTED_OK; i++) {
		const struct listed_compilation *item = &listed.items[i];
		if (!ends(item->id, sizeof item->id) || !ends(item->function, sizeof item->function) ||
		    !ends(item->file, sizeof item->file) || !ends(item->reason, sizeof item->reason) ||
		    !ends(item->failure, sizeof item->failure) || item->end < item->start)
			abort();
	}
	return 0;
}
