/* dict.c - see dict.h. */
#include "dict.h"

#include "code.h"

#include <string.h>

#define KEYS_HEAD 32
/* Up to 3.10 the head has a word with the number of places in the table, and a pointer, instead of three bytes. */
#define KEYS_HEAD_10 40
#define ENTRIES_MOST (1 << 24)
#define PLACES_MOST_LOG2 28
#define TYPE_NAME 24
#define TYPE_SIZE 32
#define TYPE_DICT_OFFSET 288
#define TYPE_CACHED_KEYS_11 872
#define TYPE_CACHED_KEYS 880
/* Flags of a type: its objects contain their values; there is a place before them for their dict. */
#define TYPE_HAS_VALUES (1ull << 2)
#define TYPE_OWNS_DICT (1ull << 4)
/* Bytes before an object: its dict, and its values in 3.11. Up to 3.10 the type has the dict's offset after the
 * object's beginning. */
#define OBJECT_DICT 24
#define OBJECT_VALUES_11 32
#define OBJECT_MOST (1u << 20)
/* Offsets in a dict; and from 3.13 on in a table of values: is it in use? */
#define DICT_KEYS 32
#define DICT_VALUES 40
#define VALUES_VALID 3
#define VALUES_HEAD 8
#define MODULE_DICT 16
#define TEXT_MOST 64

/* An int has, in the word after its head, the number of its digits of 30 bits and its sign; then the digits. */
#define INT_SIZE 16
#define INT_DIGITS 24
#define DIGIT_BITS 30
/* From 3.12 on the sign stands in the lowest bits, 0: positive, 1: zero. */
#define INT_SIZE_SHIFT 3

static bool keys_open_10(struct python *python, uint64_t at, struct python_keys *ret)
{
	int64_t head[KEYS_HEAD_10 / 8];
	if (!python_read(&python->memory, at, head, sizeof head))
		return false;
	int64_t places = head[1], count = head[4];
	if (places < 1 || places > 1 << PLACES_MOST_LOG2 || places & (places - 1) || count < 0 || count > places ||
	    count > ENTRIES_MOST)
		return false;
	int64_t index = places <= 0xff ? 1 : places <= 0xffff ? 2 : 4;
	*ret = (struct python_keys){at + KEYS_HEAD_10 + (uint64_t)(places * index), (uint32_t)count, 24, 8};
	return true;
}

/* `at`: address of the table of keys. */
static bool keys_open(struct python *python, uint64_t at, struct python_keys *ret)
{
	if (python->minor <= 10)
		return keys_open_10(python, at, ret);
	unsigned char head[KEYS_HEAD];
	int64_t count;
	if (!python_read(&python->memory, at, head, sizeof head))
		return false;
	memcpy(&count, head + 24, sizeof count);
	if (head[9] > PLACES_MOST_LOG2 || head[10] > 2 || count < 0 || count > ENTRIES_MOST)
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

/* Compares the length first, because most keys differ in it. */
static bool is_text(struct python *python, uint64_t object, const char *text)
{
	char found[TEXT_MOST + 1];
	uint64_t type, length;
	return object && python_read(&python->memory, object + 16, &length, sizeof length) && length == strlen(text) &&
	       length < TEXT_MOST && python_has_flag(python, object, PYTHON_TYPE_IS_STR, &type) &&
	       python_text(python, object, found, sizeof found) && strcmp(found, text) == 0;
}

static bool word(struct python *python, uint64_t at, uint64_t *ret)
{
	return python_read(&python->memory, at, ret, sizeof *ret);
}

static void note(struct python_items *items, uint64_t at, uint64_t found)
{
	items->links[items->link_count++] = (struct python_link){at, found};
}

/* Adds to the links that `ret` has already. */
static bool open_dict(struct python *python, uint64_t dict, struct python_items *ret)
{
	uint64_t words[(DICT_VALUES + 8) / 8], flags;
	if (dict % sizeof *words || !python_read(&python->memory, dict, words, sizeof words) ||
	    !word(python, words[PYTHON_OBJECT_TYPE / 8] + PYTHON_TYPE_FLAGS, &flags) || !(flags & PYTHON_TYPE_IS_DICT))
		return false;
	note(ret, dict + DICT_KEYS, words[DICT_KEYS / 8]);
	note(ret, dict + DICT_VALUES, words[DICT_VALUES / 8]);
	ret->values = words[DICT_VALUES / 8];
	if (ret->values && python->minor >= 13)
		ret->values += VALUES_HEAD;
	return keys_open(python, words[DICT_KEYS / 8], &ret->keys);
}

bool python_dict_open(struct python *python, uint64_t dict, struct python_items *ret)
{
	*ret = (struct python_items){0};
	return open_dict(python, dict, ret);
}

/* The address of an object's pointer to its dict. Up to 3.10 negative offsets belong to objects of variable size, such
 * as tuples; they are refused. */
static bool find_dict(struct python *python, uint64_t object, uint64_t *ret_type, uint64_t *ret)
{
	uint64_t offset;
	*ret = object - OBJECT_DICT;
	if (python->minor >= 11)
		return python_has_flag(python, object, TYPE_OWNS_DICT, ret_type);
	if (!word(python, object + PYTHON_OBJECT_TYPE, ret_type) ||
	    !word(python, *ret_type + TYPE_DICT_OFFSET, &offset))
		return false;
	*ret = object + offset;
	return offset && offset % sizeof offset == 0 && offset < OBJECT_MOST;
}

/* From 3.13 on the values lie within the object, at its end. */
static bool find_values(struct python *python, uint64_t object, uint64_t type, uint64_t *ret)
{
	uint64_t flags, size;
	unsigned char head[VALUES_HEAD];
	if (!word(python, type + PYTHON_TYPE_FLAGS, &flags) || !(flags & TYPE_HAS_VALUES) ||
	    !word(python, type + TYPE_SIZE, &size) || size > OBJECT_MOST)
		return false;
	*ret = object + size + VALUES_HEAD;
	return python_read(&python->memory, object + size, head, sizeof head) && head[VALUES_VALID] == 1;
}

/* For an object whose dict has not been made. `instead`: the word in place of the dict's address; in 3.12 the address
 * of the values, less 1. */
static bool open_values(struct python *python, uint64_t object, uint64_t type, uint64_t instead,
			struct python_items *ret)
{
	uint64_t keys;
	bool found = false;
	if (python->minor >= 13 && !instead) {
		found = find_values(python, object, type, &ret->values);
	} else if (python->minor == 12 && instead) {
		ret->values = instead + 1;
		found = true;
	} else if (python->minor == 11 && !instead) {
		found = word(python, object - OBJECT_VALUES_11, &ret->values) && ret->values;
		note(ret, object - OBJECT_VALUES_11, ret->values);
	}
	return found && word(python, type + (python->minor == 11 ? TYPE_CACHED_KEYS_11 : TYPE_CACHED_KEYS), &keys) &&
	       keys_open(python, keys, &ret->keys);
}

bool python_attributes_open(struct python *python, uint64_t object, struct python_items *ret)
{
	uint64_t type, at, dict;
	*ret = (struct python_items){0};
	if (!find_dict(python, object, &type, &at) || !word(python, at, &dict))
		return false;
	note(ret, at, dict);
	return !dict || dict & 1 ? open_values(python, object, type, dict, ret) : open_dict(python, dict, ret);
}

uint64_t python_items_slot(const struct python_items *items, uint32_t place)
{
	const struct python_keys *keys = &items->keys;
	return items->values ? items->values + (uint64_t)place * sizeof(uint64_t)
			     : keys->entries + (uint64_t)place * keys->size + keys->key + sizeof(uint64_t);
}

/* The value at a place, if the place has this key; else 0. */
static uint64_t value_of(struct python *python, const struct python_items *items, const uint64_t entry[static 2],
			 uint32_t place, const char *key)
{
	if ((!items->values && !entry[1]) || !is_text(python, entry[0], key))
		return 0;
	return items->values ? python_word(&python->memory, python_items_slot(items, place)) : entry[1];
}

uint64_t python_items_find(struct python *python, const struct python_items *items, const char *key, uint32_t *place)
{
	uint64_t block[PYTHON_BLOCK * 3], value;
	const struct python_keys *keys = &items->keys;
	uint32_t n = 0;
	if (place && *place < keys->count && python_keys_block(python, keys, *place, block) &&
	    (value = value_of(python, items, block + keys->key / 8, *place, key)))
		return value;
	for (uint32_t first = 0; first < keys->count; first += n) {
		if (!(n = python_keys_block(python, keys, first, block)))
			return 0;
		for (uint32_t i = 0; i < n; i++) {
			value = value_of(python, items, block + (i * keys->size + keys->key) / 8, first + i, key);
			if (!value)
				continue;
			if (place)
				*place = first + i;
			return value;
		}
	}
	return 0;
}

uint64_t python_dict_find(struct python *python, uint64_t dict, const char *key, uint32_t *place)
{
	struct python_items items;
	return python_dict_open(python, dict, &items) ? python_items_find(python, &items, key, place) : 0;
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

uint64_t python_module(struct python *python, const char *name, uint32_t *place)
{
	const struct python_offsets *o = &python->offsets;
	uint64_t interpreter = python_word(&python->memory, python->runtime + (uint64_t)o->runtime_head);
	uint64_t modules = python_word(&python->memory, interpreter + (uint64_t)o->interpreter_modules);
	uint64_t module = python_dict_find(python, modules, name, place);
	return module && python_is_a(python, module, "module") ? python_word(&python->memory, module + MODULE_DICT) : 0;
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
	/* A digit with more bits is no digit of an int. */
	if ((digits[0] | digits[1]) >> DIGIT_BITS)
		return false;
	*ret = digits[0] | (uint64_t)digits[1] << DIGIT_BITS;
	return true;
}
