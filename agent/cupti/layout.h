/* layout.h - how CUPTI's activity records lie in memory, for every release from 11.7 on, without CUPTI's headers.
 *
 * New releases only append to the structs. So a field has one offset in all releases, and a record has the field if it
 * is large enough. records.def has offset and size, generated from the headers of all releases
 * (tests/cuda/generate.py). Only the record's size differs between libraries. It is taken from the version at first and
 * then from the library itself, because a version number does not tell releases apart (11.8, 12.0 and 12.1 all say 18).
 *
 * Any thread; no locks, no state except the caller's struct. A layout is filled once and then only read. */
#ifndef PROFD_AGENT_CUPTI_LAYOUT_H
#define PROFD_AGENT_CUPTI_LAYOUT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* CUpti_ActivityKind: CUPTI_KIND_CONCURRENT_KERNEL, ... */
enum cupti_kind {
#define CUPTI_KIND(number, NAME, record) CUPTI_KIND_##NAME = (number),
#include "records.def"
	CUPTI_KIND_COUNT /* one more than the last kind of the newest known release */
};

/* Values of CUPTI's own enums and macros that decoding needs. */
enum cupti_constant {
#define CUPTI_CONSTANT(NAME, value) CUPTI_##NAME = (value),
#include "records.def"
};

/* What is known of the size of a kind's records. */
enum cupti_layout_state {
	CUPTI_LAYOUT_ABSENT,  /* the release has no such kind, as far as is known */
	CUPTI_LAYOUT_ASSUMED, /* by the version alone */
	CUPTI_LAYOUT_PROVED,  /* the library itself said so */
	CUPTI_LAYOUT_SILENT,  /* the library was asked and did not answer */
	CUPTI_LAYOUT_REFUSED  /* the size that it gave is impossible: the kind is not read */
};

struct cupti_layout {
	uint32_t version;		 /* cuptiGetVersion */
	uint16_t size[CUPTI_KIND_COUNT]; /* bytes of a record; 0 = not to be read */
	uint16_t told[CUPTI_KIND_COUNT]; /* what the library said, where it was refused */
	uint8_t state[CUPTI_KIND_COUNT]; /* enum cupti_layout_state */
};

/* cuptiActivityGetNextRecord and cuptiActivityGetStructSize (13.2+). They return a CUptiResult, 0 = success. */
typedef int (*cupti_next_record)(uint8_t *buffer, size_t valid, void **record);
typedef int (*cupti_struct_size)(unsigned kind, uint32_t version, size_t *ret_size);

/* Fills the layout for a library of this version, from the newest known release that is not newer. Where releases share
 * a version number, the smallest sizes count. 0, or -ENOTSUP where the version is older than all known ones. Calls
 * nothing. */
int cupti_layout_choose(struct cupti_layout *layout, uint32_t version);

/* Asks the library for the size of every known kind and uses the answer. A size that no known release has is good if it
 * is not smaller than the smallest known one, because known fields keep their offsets. A kind whose size is impossible,
 * or for which the library gives none, is not read: size 0. `next` and `struct_size` are both asked, and the smaller
 * answer counts; either may be NULL. They are called with memory of ours and need a process whose CUDA driver is up
 * (13.2 crashes without it). 0; -ENODEV where the library gave no size for any kind: the layout is not changed. */
int cupti_layout_prove(struct cupti_layout *layout, cupti_next_record next, cupti_struct_size struct_size);

/* Size of the records of a kind, 0 where they are not to be read. Any number is allowed. */
static inline size_t cupti_layout_size(const struct cupti_layout *layout, uint32_t kind)
{
	return kind < CUPTI_KIND_COUNT ? layout->size[kind] : 0;
}

/* How the size of this kind's records is known, or why they are not read: a static text, a sentence without subject and
 * full stop, to be put after the kind's name. */
const char *cupti_layout_sentence(const struct cupti_layout *layout, uint32_t kind);

/* Name of a kind as CUPTI writes it ("CONCURRENT_KERNEL"); NULL for a number that is no kind. */
const char *cupti_kind_name(uint32_t kind);

/* CUPTI sets this bit in the kind of a record whose operation has not ended, as long as CUPTI has the buffer (CUDA
 * 13.0). */
#define CUPTI_KIND_MARK 0x80000000u

static inline int cupti_record_is_marked(const void *record)
{
	uint32_t kind;
	memcpy(&kind, record, sizeof kind);
	return (kind & CUPTI_KIND_MARK) != 0;
}

/* Kind of a record of at least 4 bytes, at any alignment. */
static inline uint32_t cupti_record_kind(const void *record)
{
	uint32_t kind;
	memcpy(&kind, record, sizeof kind);
	return kind & ~CUPTI_KIND_MARK;
}

#endif
