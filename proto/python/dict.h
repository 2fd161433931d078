/* dict.h - dicts, and what lies in them, of CPython 3.11 and newer. Bounds and distrust as in python.h: what another thread changes meanwhile
 * may be read torn, so that each object is looked at before it is believed. */
#ifndef PROFD_PROTO_PYTHON_DICT_H
#define PROFD_PROTO_PYTHON_DICT_H

#include "python.h"

/* From the start of an object, and of its type. */
#define PYTHON_OBJECT_TYPE 8
#define PYTHON_TYPE_FLAGS 168
#define PYTHON_TYPE_OWNS_DICT (1ull << 4)
#define PYTHON_TYPE_IS_INT (1ull << 24)
#define PYTHON_TYPE_IS_STR (1ull << 28)
#define PYTHON_TYPE_IS_DICT (1ull << 29)
/* From the start of a dict. */
#define PYTHON_DICT_KEYS 32
#define PYTHON_DICT_VALUES 40
/* Before an object whose attributes lie in a dict: where that is. */
#define PYTHON_OBJECT_DICT 24

/* Entries that are read at once. */
#define PYTHON_BLOCK 32

/* The keys of a dict, with their values where it is not split. */
struct python_keys {
	uint64_t entries;
	uint32_t count, size,
		key; /* size: bytes of an entry; key: where the key lies in it, and its value behind that */
};

/* `at`: of the table of keys. */
bool python_keys_open(struct python *python, uint64_t at, struct python_keys *ret);
/* Entries from `first` on; returns how many, 0 where there are none or they cannot be read. */
uint32_t python_keys_block(struct python *python, const struct python_keys *keys, uint32_t first,
			   uint64_t block[static PYTHON_BLOCK * 3]);
/* Has the object's type one of the flags? *ret_type: which type it is. */
bool python_has_flag(struct python *python, uint64_t object, uint64_t flag, uint64_t *ret_type);
/* The value under a key, a str without any character beyond ASCII, of at most 63; 0: it is not there, or cannot be read. `place`, which may be
 * NULL, is where it was in a dict like this: it is looked for there first, and the place where it is put there. */
uint64_t python_dict_find(struct python *python, uint64_t dict, const char *key, uint32_t *place);
/* The dict of an object's attributes; 0: it has none, or none yet. */
uint64_t python_object_dict(struct python *python, uint64_t object);
/* Is this the name of the object's type, as C has it (collections.deque)? */
bool python_is_a(struct python *python, uint64_t object, const char *type);
/* An int from 0 to 2^60 - 1, or a bool; false where it is none. */
bool python_number(struct python *python, uint64_t object, uint64_t *ret);

#endif
