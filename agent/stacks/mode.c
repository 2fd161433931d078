/* mode.c - see mode.h. A module has `training` among its attributes, and `_parameters`, which is a dict; nothing else is taken for a module. A class
 * that makes `training` a property has it not among them, and is none: but for that of torch.compile, which asks the module it was made of.
 *
 * The memory may be read by loads alone. So nothing is read beyond what an object of its kind has, once that is known; a str that is compared has eight
 * characters at least, with which it fills what is read of it. */
#include "mode.h"

#include <string.h>

/* Of a code object: up to 3.10, and from 3.11 on. */
#define CODE_LOCALS_10 28
#define CODE_NAMES_10 64
#define CODE_FREE_10 80 /* names of variables of outer functions, and behind them of cells: these follow the locals */
#define CODE_NAMES 32
/* From 3.11 on, behind the line: all variables, cells and those of outer functions among them. */
#define CODE_VARIABLES 4
#define FRAME_GLOBALS_10 48
#define FRAME_GLOBALS_11 8
#define FRAME_GLOBALS 24
#define TUPLE_SIZE 16
#define CELL_CONTENT 16
#define TYPE_NAME 24
#define TYPE_IS_PYTHONS (1ull << 9)
#define VARIABLES_MOST 48
#define NAMES_MOST 96
#define ATTRIBUTES_MOST 512
#define GLOBALS_MOST 1024

/* What a code object names. */
struct names {
	uint64_t bits; /* of all their addresses */
	uint32_t count;
	uint64_t at[NAMES_MOST];
};

static inline uint64_t bit_of(uint64_t address)
{
	return 1ull << (address >> 4 & 63);
}

static void read_names(struct mode_reader *r, uint64_t code, struct names *ret)
{
	struct python *python = &r->python;
	uint64_t tuple, count;
	ret->count = 0;
	ret->bits = 0;
	if (!python_read(&python->memory, code + (python->minor <= 10 ? CODE_NAMES_10 : CODE_NAMES), &tuple,
			 sizeof tuple) ||
	    !python_read(&python->memory, tuple + TUPLE_SIZE, &count, sizeof count) || !count)
		return;
	count = count < NAMES_MOST ? count : NAMES_MOST;
	if (!python_read(&python->memory, tuple + (uint64_t)python->offsets.tuple_items, ret->at,
			 count * sizeof *ret->at))
		return;
	ret->count = (uint32_t)count;
	for (uint32_t i = 0; i < ret->count; i++)
		ret->bits |= bit_of(ret->at[i]);
}

static bool is_named(const struct names *names, uint64_t key)
{
	if (!(names->bits & bit_of(key)))
		return false;
	uint32_t i = 0;
	while (i < names->count && names->at[i] != key)
		i++;
	return i < names->count;
}

/* Those of an object of a class that is written in Python. */
static bool open_attributes(struct mode_reader *r, uint64_t object, struct python_items *ret)
{
	uint64_t type;
	return object && object % sizeof object == 0 && python_has_flag(&r->python, object, TYPE_IS_PYTHONS, &type) &&
	       python_attributes_open(&r->python, object, ret) && ret->keys.count <= ATTRIBUTES_MOST;
}

/* Is this the name of the object's class? No piece reaches over the end of a word in which the name goes on: memory may end behind it. */
static bool is_of_class(struct mode_reader *r, uint64_t object, const char *name)
{
	struct python_memory *memory = &r->python.memory;
	uint64_t at, type = python_word(memory, object + PYTHON_OBJECT_TYPE);
	size_t bytes = strlen(name) + 1;
	if (!type || !python_read(memory, type + TYPE_NAME, &at, sizeof at))
		return false;
	for (size_t i = 0; i < bytes;) {
		char found[sizeof at];
		size_t piece = sizeof found - (at + i) % sizeof found;
		piece = piece < bytes - i ? piece : bytes - i;
		if (!python_read(memory, at + i, found, piece) || memcmp(found, name + i, piece) != 0)
			return false;
		i += piece;
	}
	return true;
}

/* The module that torch.compile has made this one of, 0: it is not there. */
static uint64_t compiled_from(struct mode_reader *r, const struct python_items *items)
{
	uint64_t type, modules = python_items_find(&r->python, items, "_modules", NULL);
	return modules && python_has_flag(&r->python, modules, PYTHON_TYPE_IS_DICT, &type)
		       ? python_dict_find(&r->python, modules, "_orig_mod", NULL)
		       : 0;
}

/* `ret` where it is one. */
static bool is_module(struct mode_reader *r, uint64_t object, struct mode *ret)
{
	struct python_items items;
	uint64_t type;
	if (!open_attributes(r, object, &items))
		return false;
	uint64_t training = python_items_find(&r->python, &items, "training", &r->training);
	if (is_of_class(r, object, "OptimizedModule")) {
		object = compiled_from(r, &items);
		if (!open_attributes(r, object, &items))
			return false;
		training = python_items_find(&r->python, &items, "training", &r->training);
	}
	if (training != r->yes && training != r->no)
		return false;
	uint64_t parameters = python_items_find(&r->python, &items, "_parameters", &r->parameters);
	if (!parameters || !python_has_flag(&r->python, parameters, PYTHON_TYPE_IS_DICT, &type))
		return false;
	type = python_word(&r->python.memory, object + PYTHON_OBJECT_TYPE);
	*ret = (struct mode){object, type, parameters, training == r->yes};
	return type != 0;
}

static void add(struct mode_reader *r, uint64_t object, struct modes *ret)
{
	struct mode found;
	if (ret->count == MODES_MOST || !is_module(r, object, &found))
		return;
	for (uint32_t i = 0; i < ret->count; i++)
		if (ret->items[i].object == found.object)
			return;
	ret->items[ret->count++] = found;
}

/* Of these items those whose keys are named. Names are one object each, wherever they stand. */
static void add_named(struct mode_reader *r, const struct python_items *items, const struct names *names,
		      struct modes *ret)
{
	const struct python_keys *keys = &items->keys;
	uint64_t block[PYTHON_BLOCK * 3];
	uint32_t n;
	for (uint32_t first = 0; first < keys->count && ret->count < MODES_MOST; first += n) {
		if (!(n = python_keys_block(&r->python, keys, first, block)))
			return;
		for (uint32_t i = 0; i < n; i++) {
			const uint64_t *entry = &block[(i * keys->size + keys->key) / 8];
			if (is_named(names, entry[0]))
				add(r,
				    items->values ? python_word(&r->python.memory, python_items_slot(items, first + i))
						  : entry[1],
				    ret);
		}
	}
}

static uint32_t variable_count(struct mode_reader *r, uint64_t code)
{
	struct python *python = &r->python;
	uint64_t tuples[2],
		where = python->minor <= 10 ? CODE_LOCALS_10 : (uint64_t)python->offsets.code_line + CODE_VARIABLES;
	uint32_t count;
	if (!python_read(&python->memory, code + where, &count, sizeof count))
		return 0;
	if (python->minor <= 10 && python_read(&python->memory, code + CODE_FREE_10, tuples, sizeof tuples))
		count += (uint32_t)python_word(&python->memory, tuples[0] + TUPLE_SIZE) +
			 (uint32_t)python_word(&python->memory, tuples[1] + TUPLE_SIZE);
	return count < VARIABLES_MOST ? count : VARIABLES_MOST;
}

static void add_variables(struct mode_reader *r, uint64_t frame, uint64_t code, const struct names *names,
			  struct modes *ret)
{
	struct python *python = &r->python;
	const struct python_offsets *o = &python->offsets;
	struct python_items items;
	uint64_t at[VARIABLES_MOST];
	uint32_t count = variable_count(r, code);
	if (!count || !python_read(&python->memory, frame + (uint64_t)o->frame_locals, at, count * sizeof *at))
		return;
	for (uint32_t i = 0; i < count; i++) {
		/* From 3.14 on references have marks; a number, which is no object, keeps one. */
		if (python->minor >= 14 && at[i] % 4 != 3)
			at[i] -= at[i] % 4;
		uint64_t object = at[i];
		if (object && object % sizeof object == 0 &&
		    python_word(&python->memory, object + PYTHON_OBJECT_TYPE) == r->cell)
			object = python_word(&python->memory, object + CELL_CONTENT);
		add(r, object, ret);
	}
	if (names->count && open_attributes(r, at[0], &items))
		add_named(r, &items, names, ret);
}

void modes_of_frame(struct mode_reader *r, uint64_t frame, uint64_t code, uint64_t reads, struct modes *ret)
{
	struct python *python = &r->python;
	uint64_t globals, where = python->minor <= 10	? FRAME_GLOBALS_10
				  : python->minor == 11 ? FRAME_GLOBALS_11
							: FRAME_GLOBALS;
	struct python_items items;
	struct names names;
	python->memory.reads_left = reads;
	read_names(r, code, &names);
	add_variables(r, frame, code, &names, ret);
	if (names.count && python_read(&python->memory, frame + where, &globals, sizeof globals) &&
	    python_dict_open(python, globals, &items) && items.keys.count <= GLOBALS_MOST)
		add_named(r, &items, &names, ret);
}
