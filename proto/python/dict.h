/* dict.h - reads dicts, attributes of objects and their values, of CPython 3.9 and newer. Bounds and distrust as in
 * python.h: another thread may change an object while it is read, so each object is checked before it is used. */
#ifndef PROFD_PROTO_PYTHON_DICT_H
#define PROFD_PROTO_PYTHON_DICT_H

#include "python.h"

/* From the start of an object, and of its type. */
#define PYTHON_OBJECT_TYPE 8
#define PYTHON_TYPE_FLAGS 168
#define PYTHON_TYPE_IS_INT (1ull << 24)
#define PYTHON_TYPE_IS_STR (1ull << 28)
#define PYTHON_TYPE_IS_DICT (1ull << 29)
#define PYTHON_TYPE_IS_TYPE (1ull << 31)

/* Entries that are read at once. */
#define PYTHON_BLOCK 32

/* The keys of a dict, with their values where it is not split. */
struct python_keys {
	uint64_t entries;
	uint32_t count, size,
		key; /* size: bytes of an entry; key: offset of the key in it; the value follows the key */
};

/* Entries from `first` on; returns how many, 0 where there are none or they cannot be read. */
uint32_t python_keys_block(struct python *python, const struct python_keys *keys, uint32_t first,
			   uint64_t block[static PYTHON_BLOCK * 3]);

/* A word of memory that was read on the way to something. As long as the word is the same, the way leads to the same
 * thing. */
struct python_link {
	uint64_t at, word;
};
#define PYTHON_ITEMS_LINKS 4

/* The items of a dict, or the attributes of an object. */
struct python_items {
	struct python_keys keys;
	uint64_t values; /* 0: they lie with the keys; else objects of one class share the keys */
	uint32_t link_count;
	struct python_link links[PYTHON_ITEMS_LINKS];
};

bool python_dict_open(struct python *python, uint64_t dict, struct python_items *ret);
/* Opens an object's attributes, whether its dict has been made or not. Also false for an object that cannot have a
 * dict. */
bool python_attributes_open(struct python *python, uint64_t object, struct python_items *ret);
/* Where the value of the key at this place lies. */
uint64_t python_items_slot(const struct python_items *items, uint32_t place);
/* The value of a key, which is an ASCII str of at most 63 characters; 0: it is not there, or cannot be read. `place`,
 * which may be NULL, tells where the key was in similar items: the search begins there, and *place becomes the place
 * where it was found. */
uint64_t python_items_find(struct python *python, const struct python_items *items, const char *key, uint32_t *place);
/* python_dict_open() and python_items_find() in one. */
uint64_t python_dict_find(struct python *python, uint64_t dict, const char *key, uint32_t *place);
/* The dict of an imported module; 0: it has not been imported. `place` as above. */
uint64_t python_module(struct python *python, const char *name, uint32_t *place);

/* Has the object's type one of the flags? *ret_type: which type it is. */
bool python_has_flag(struct python *python, uint64_t object, uint64_t flag, uint64_t *ret_type);
/* Is this the name of the object's type, as C has it (collections.deque)? */
bool python_is_a(struct python *python, uint64_t object, const char *type);
/* An int from 0 to 2^60 - 1, or a bool; false for anything else. */
bool python_number(struct python *python, uint64_t object, uint64_t *ret);

#endif
