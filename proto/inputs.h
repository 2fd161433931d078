/* inputs.h - the inputs of one operator call as 32-bit words: written by the agent inside torch's callback, interned in
 * the segment's string arena (STRING_INPUTS), read by the daemon, which turns them into the JSON texts that Kineto writes
 * as "Input Dims", "Input type", "Input Strides" and "Concrete Inputs".
 *
 * A description is a sequence of items, one per input. The first word of an item holds its kind in the highest four
 * bits; what follows depends on it (all little-endian, 64-bit values low word first):
 *
 *     NONE                                     an input that was not given, an undefined tensor
 *     TENSOR    wide:1 strided:1 device:8 dtype:8 rank:7     then rank sizes, then rank strides where strided
 *               one word each, two where wide (some size or stride does not fit into 31 bits)
 *     OPAQUE    dtype:8 in bits 8..15          a tensor whose sizes must not be read (subclass, nested, symbolic)
 *     INT       short:1 value                  one word more where short, else two
 *     DOUBLE                                   two words
 *     BOOL      value:1
 *     LIST      cut:1 type:3 count:16          count items follow; a cut list had more
 *     OTHER     tag:16                         a kind of value that is not described
 *
 * No globals, no memory: safe on any thread. */
#ifndef PROFD_PROTO_INPUTS_H
#define PROFD_PROTO_INPUTS_H

#include "limits.h"

#include <stddef.h>
#include <stdint.h>

enum inputs_kind {
	INPUTS_NONE = 1, /* 0 is invalid: a hole in the segment must not read as something */
	INPUTS_TENSOR = 2,
	INPUTS_OPAQUE = 3,
	INPUTS_INT = 4,
	INPUTS_DOUBLE = 5,
	INPUTS_BOOL = 6,
	INPUTS_LIST = 7,
	INPUTS_OTHER = 8,
};
#define INPUTS_KIND_SHIFT 28
#define INPUTS_WORD(kind, rest) ((uint32_t)(kind) << INPUTS_KIND_SHIFT | (uint32_t)(rest))

/* TENSOR and OPAQUE */
#define INPUTS_RANK_MAX 64u
#define INPUTS_RANK_MASK 0x7fu
#define INPUTS_DTYPE_SHIFT 8
#define INPUTS_DEVICE_SHIFT 16
#define INPUTS_STRIDED (1u << 24)
#define INPUTS_WIDE (1u << 25)
/* INT */
#define INPUTS_SHORT 1u
/* LIST and OTHER */
#define INPUTS_COUNT_MASK 0xffffu
#define INPUTS_CUT (1u << 24)
#define INPUTS_LIST_TYPE_SHIFT 16

enum inputs_list {
	INPUTS_LIST_GENERIC = 1, /* anything else: optional tensors, lists of lists */
	INPUTS_LIST_TENSORS = 2,
	INPUTS_LIST_SCALARS = 3, /* ints, doubles, bools */
};
/* How many lists within each other are described; deeper ones are OTHER. */
#define INPUTS_DEPTH_MAX 3

/* Longest list of scalars that is described, as in Kineto; a longer one becomes OTHER. */
#define INPUTS_SCALARS_MAX 30u
/* Longest list of tensors whose sizes are described, as in Kineto. For a longer list only the type is described: it is
 * a cut list without items. */
#define INPUTS_TENSORS_MAX 30u
/* How many items of any other list are described. */
#define INPUTS_GENERIC_MAX 8u

/* Room for one JSON text, with its NUL, of any description of at most LIMIT_INPUTS_WORDS words. */
#define INPUTS_TEXT_BYTES (LIMIT_INPUTS_WORDS * 32u)

/* The four texts; each buffer is INPUTS_TEXT_BYTES long. */
struct inputs_text {
	char dims[INPUTS_TEXT_BYTES];	  /* [[64, 3, 224, 224], [], [[2, 3], [2, 3]]] */
	char types[INPUTS_TEXT_BYTES];	  /* ["float", "Scalar", "TensorList"] */
	char strides[INPUTS_TEXT_BYTES];  /* [[150528, 50176, 224, 1], [], [[3, 1], [3, 1]]] */
	char concrete[INPUTS_TEXT_BYTES]; /* ["", "1", "[1, 1]"] */
};

/* Writes the texts of a description of n words out of another process (already copied). Returns 0, or -EPROTO where it
 * is not well formed; the texts are then empty. */
int inputs_to_json(const uint32_t *words, size_t n, struct inputs_text *ret_text);

/* A dtype as Kineto spells it ("float", "c10::BFloat16"); "" for a number that is no dtype. */
const char *inputs_dtype_name(unsigned dtype);

/* Writers, for the agent. A writer that is full takes nothing more and remembers it. */
struct inputs_writer {
	uint32_t *words;
	uint32_t n, limit;
	uint32_t full;
};

static inline void inputs_init(struct inputs_writer *writer, uint32_t *words, uint32_t limit)
{
	writer->words = words;
	writer->n = 0;
	writer->limit = limit;
	writer->full = 0;
}

/* The description's length in words: 0 where the operator has no inputs, limit + 1 where they do not fit. */
static inline uint32_t inputs_finish(const struct inputs_writer *writer)
{
	return writer->full ? writer->limit + 1 : writer->n;
}

static inline uint32_t *inputs_room(struct inputs_writer *writer, uint32_t words)
{
	if (writer->full || writer->limit - writer->n < words) {
		writer->full = 1;
		return NULL;
	}
	uint32_t *at = writer->words + writer->n;
	writer->n += words;
	return at;
}

static inline void inputs_put_none(struct inputs_writer *writer)
{
	uint32_t *at = inputs_room(writer, 1);
	if (at)
		at[0] = INPUTS_WORD(INPUTS_NONE, 0);
}

static inline void inputs_put_opaque(struct inputs_writer *writer, uint8_t dtype)
{
	uint32_t *at = inputs_room(writer, 1);
	if (at)
		at[0] = INPUTS_WORD(INPUTS_OPAQUE, (uint32_t)dtype << INPUTS_DTYPE_SHIFT);
}

static inline void inputs_put_other(struct inputs_writer *writer, uint32_t tag)
{
	uint32_t *at = inputs_room(writer, 1);
	if (at)
		at[0] = INPUTS_WORD(INPUTS_OTHER, tag & INPUTS_COUNT_MASK);
}

static inline void inputs_put_bool(struct inputs_writer *writer, int value)
{
	uint32_t *at = inputs_room(writer, 1);
	if (at)
		at[0] = INPUTS_WORD(INPUTS_BOOL, value != 0);
}

static inline void inputs_put_int(struct inputs_writer *writer, int64_t value)
{
	int is_short = value == (int32_t)value;
	uint32_t *at = inputs_room(writer, is_short ? 2 : 3);
	if (!at)
		return;
	at[0] = INPUTS_WORD(INPUTS_INT, is_short ? INPUTS_SHORT : 0);
	at[1] = (uint32_t)value;
	if (!is_short)
		at[2] = (uint32_t)((uint64_t)value >> 32);
}

static inline void inputs_put_double(struct inputs_writer *writer, double value)
{
	uint32_t *at = inputs_room(writer, 3);
	if (!at)
		return;
	at[0] = INPUTS_WORD(INPUTS_DOUBLE, 0);
	__builtin_memcpy(at + 1, &value, sizeof value);
}

/* rank sizes and rank strides; strides may be NULL. A rank beyond INPUTS_RANK_MAX becomes OPAQUE. */
static inline void inputs_put_tensor(struct inputs_writer *writer, uint8_t dtype, uint8_t device, uint32_t rank,
				     const int64_t *sizes, const int64_t *strides)
{
	uint64_t any = 0;
	uint32_t values = strides ? 2 * rank : rank;
	if (rank > INPUTS_RANK_MAX) {
		inputs_put_opaque(writer, dtype);
		return;
	}
	for (uint32_t i = 0; i < rank; i++)
		any |= (uint64_t)sizes[i];
	for (uint32_t i = 0; strides && i < rank; i++)
		any |= (uint64_t)strides[i];
	uint32_t wide = any >> 31 != 0;
	uint32_t *at = inputs_room(writer, 1 + (wide ? 2 * values : values));
	if (!at)
		return;
	*at++ = INPUTS_WORD(INPUTS_TENSOR, (wide ? INPUTS_WIDE : 0) | (strides ? INPUTS_STRIDED : 0) |
						   (uint32_t)device << INPUTS_DEVICE_SHIFT |
						   (uint32_t)dtype << INPUTS_DTYPE_SHIFT | rank);
	for (uint32_t i = 0; i < values; i++) {
		int64_t value = i < rank ? sizes[i] : strides[i - rank];
		*at++ = (uint32_t)value;
		if (wide)
			*at++ = (uint32_t)((uint64_t)value >> 32);
	}
}

/* Begins a list. The caller then puts the items, and ends the list with the returned pointer. */
static inline uint32_t *inputs_list_begin(struct inputs_writer *writer)
{
	return inputs_room(writer, 1);
}

/* `count` items were put completely; `cut`: the list has more. */
static inline void inputs_list_end(uint32_t *at, enum inputs_list type, uint32_t count, int cut)
{
	if (at)
		*at = INPUTS_WORD(INPUTS_LIST, (cut ? INPUTS_CUT : 0) | (uint32_t)type << INPUTS_LIST_TYPE_SHIFT |
						       (count & INPUTS_COUNT_MASK));
}

#endif
