/* dict.c - see dict.h. */
#include "dict.h"

#include "code.h"

#include <string.h>

#define KEYS_HEAD 32
#define ENTRIES_MOST (1 << 24)
#define TYPE_NAME 24
#define TEXT_MOST 64

/* Of an int: how many digits of 30 bits, and its sign, in the word behind the head; then the digits. */
#define INT_SIZE 16
#define INT_DIGITS 24
#define DIGIT_BITS 30
/* From 3.12 on the sign stands in the lowest bits, 0: positive, 1: zero. */
#define INT_SIZE_SHIFT 3

bool python_keys_open(struct python *python, uint64_t at, struct python_keys *ret)
{
	unsigned char head[KEYS_HEAD];
	int64_t count;
	if (!python_read(&python->memory, at, head, sizeof head))
		return false;
	memcpy(&count, head + 24, sizeof count);
	if (head[9] > 28 || head[10] > 2 || count < 0 || count > ENTRIES_MOST)
		return false;
	bool general = head[10] == 0;
	*ret = (struct python_keys){at + KEYS_HEAD + (1ull << head[9]), (uint32_t)count, general ? 24 : 16,
				    general ? 8 : 0};
	return true;
}

uint32_t python_keys_block(struct python *python, const struct python_keys *keys, uint32_t first,
			   uint64_t block[static PYTHON_BLOCK * 3])
{
	uint32_t n = keys->count - first < PYTHON_BLOCK ? keys->count - first : PYTHON_BLOCK;
	return n && python_read(&python->memory, keys->entries + (uint64_t)first * keys->size, block,
				(size_t)n * keys->size)
		       ? n
		       : 0;
}

bool python_has_flag(struct python *python, uint64_t object, uint64_t flag, uint64_t *ret_type)
{
	*ret_type = python_word(&python->memory, object + PYTHON_OBJECT_TYPE);
	return *ret_type && python_word(&python->memory, *ret_type + PYTHON_TYPE_FLAGS) & flag;
}

/* Most keys are not: by their length first. */
static bool is_text(struct python *python, uint64_t object, const char *text)
{
	char found[TEXT_MOST + 1];
	uint64_t type, length;
	return object && python_read(&python->memory, object + 16, &length, sizeof length) && length == strlen(text) &&
	       length < TEXT_MOST && python_has_flag(python, object, PYTHON_TYPE_IS_STR, &type) &&
	       python_text(python, object, found, sizeof found) && strcmp(found, text) == 0;
}

/* A dict that shares its keys with others has its values elsewhere: the dicts of modules and `sys.modules` do not. */
static bool open_dict(struct python *python, uint64_t dict, struct python_keys *ret)
{
	uint64_t type;
	return python_has_flag(python, dict, PYTHON_TYPE_IS_DICT, &type) &&
	       !python_word(&python->memory, dict + PYTHON_DICT_VALUES) &&
	       python_keys_open(python, python_word(&python->memory, dict + PYTHON_DICT_KEYS), ret);
}

uint64_t python_dict_find(struct python *python, uint64_t dict, const char *key, uint32_t *place)
{
	uint64_t block[PYTHON_BLOCK * 3];
	struct python_keys keys;
	uint32_t n = 0;
	if (!open_dict(python, dict, &keys))
		return 0;
	if (place && *place < keys.count && python_keys_block(python, &keys, *place, block)) {
		const uint64_t *entry = block + keys.key / 8;
		if (entry[1] && is_text(python, entry[0], key))
			return entry[1];
	}
	for (uint32_t first = 0; first < keys.count; first += n) {
		if (!(n = python_keys_block(python, &keys, first, block)))
			return 0;
		for (uint32_t i = 0; i < n; i++) {
			const uint64_t *entry = block + (i * keys.size + keys.key) / 8;
			if (!entry[1] || !is_text(python, entry[0], key))
				continue;
			if (place)
				*place = first + i;
			return entry[1];
		}
	}
	return 0;
}

uint64_t python_object_dict(struct python *python, uint64_t object)
{
	uint64_t type, dict;
	if (!python_has_flag(python, object, PYTHON_TYPE_OWNS_DICT, &type))
		return 0;
	dict = python_word(&python->memory, object - PYTHON_OBJECT_DICT);
	return dict && python_has_flag(python, dict, PYTHON_TYPE_IS_DICT, &type) ? dict : 0;
}

bool python_is_a(struct python *python, uint64_t object, const char *type)
{
	char found[TEXT_MOST];
	uint64_t at = python_word(&python->memory, object + PYTHON_OBJECT_TYPE);
	size_t bytes = strlen(type) + 1;
	uint64_t name = at ? python_word(&python->memory, at + TYPE_NAME) : 0;
	return name && bytes <= sizeof found && python_read(&python->memory, name, found, bytes) &&
	       memcmp(found, type, bytes) == 0;
}

bool python_number(struct python *python, uint64_t object, uint64_t *ret)
{
	uint64_t type, size;
	uint32_t digits[2] = {0, 0};
	*ret = 0;
	if (!python_has_flag(python, object, PYTHON_TYPE_IS_INT, &type) ||
	    !python_read(&python->memory, object + INT_SIZE, &size, sizeof size))
		return false;
	if (python->minor > 11) {
		if ((size & 3) == 1)
			return true;
		if (size & 3)
			return false;
		size >>= INT_SIZE_SHIFT;
	}
	if (size > 2 || (size && !python_read(&python->memory, object + INT_DIGITS, digits, size * sizeof *digits)))
		return false;
	*ret = digits[0] | (uint64_t)digits[1] << DIGIT_BITS;
	return true;
}
