/* known.c - see known.h. A stack is its innermost frame and the number of its parent, which is the stack of the caller.
 * So the common part of two stacks is kept and written once.
 *
 * Numbers are given without a lock: the frame is written to the place of its number, and then one compare-and-swap
 * takes a slot of the table for the number. If two threads bring the same frame, the second takes the first one's
 * number, and nothing refers to its own record. Only the agent's thread uses the kept descriptions of code. */
#include "known.h"

#include "agent/core/room.h"
#include "proto/limits.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#define STACKS_MOST (LIMIT_STACKS + 1)
#define SLOTS (2 * STACKS_MOST)
/* Caches. If two entries share a place, the older one is replaced. */
#define CODES 8192u
#define LINES 16384u

/* A function. Its code object is checked each time (print), because another one may lie there now. */
struct known_code {
	uint64_t code, print;
	uint32_t function, file, first_line; /* string ids */
	uint32_t generation;
};

struct known_line {
	uint64_t code, print;
	int64_t instruction;
	uint32_t line, filled;
};

struct known {
	struct known_code codes[CODES];
	struct known_line lines[LINES];
	struct known_frame frames[STACKS_MOST]; /* [0] is none */
	_Atomic uint32_t slots[SLOTS];
};

static struct known *known;
static _Atomic uint32_t count;
static uint32_t users, generation;

int known_take(void)
{
	if (!known)
		known = room_try(sizeof *known);
	users += known != NULL;
	return known ? 0 : -ENOMEM;
}

void known_give_back(void)
{
	/* Never unmapped: a thread of the job may be late, and still in it. */
	if (users && --users == 0)
		madvise(known, sizeof *known, MADV_DONTNEED);
}

uint64_t known_bytes(void)
{
	return users ? sizeof *known / users : 0;
}

void known_start(uint32_t recording)
{
	if (generation == recording || !known)
		return;
	generation = recording;
	atomic_store(&count, 0);
	memset(known->slots, 0, sizeof known->slots);
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
	return hash ^ hash >> 29;
}

/* The description of a code object; NULL: it cannot be read. */
static const struct known_code *code_of(struct python *python, struct sink_thread *own, uint64_t code)
{
	struct known_code *at = &known->codes[mix(0, code) % CODES];
	struct python_code found;
	uint64_t print = python_code_print(python, code);
	if (!print)
		return NULL;
	if (at->code == code && at->print == print && at->generation == generation)
		return at;
	if (!python_describe(python, code, &found) || python_code_print(python, code) != print)
		return NULL;
	*at = (struct known_code){
		.code = code,
		.print = print,
		.function = sink_string(own, found.name, strlen(found.name), EVENT_STACK),
		.file = sink_string(own, found.file, strlen(found.file), EVENT_STACK),
		.first_line = found.line > 0 ? (uint32_t)found.line : 0,
		.generation = generation,
	};
	return at;
}

static uint32_t line_of(struct python *python, const struct known_code *code, int64_t instruction)
{
	uint64_t hash = mix(mix(0, code->code), (uint64_t)instruction);
	struct known_line *at = &known->lines[hash % LINES];
	if (at->filled && at->code == code->code && at->print == code->print && at->instruction == instruction)
		return at->line;
	int32_t line = python_line(python, code->code, instruction);
	*at = (struct known_line){code->code, code->print, instruction, line > 0 ? (uint32_t)line : 0, 1};
	return at->line;
}

static bool is_same(const struct known_frame *a, const struct known_frame *b)
{
	return a->parent == b->parent && a->function == b->function && a->file == b->file && a->line == b->line &&
	       a->first_line == b->first_line && a->module == b->module && a->class == b->class;
}

/* Gives the frame a number and writes its record; 0, with *result, where that fails. */
static uint32_t add(struct sink_thread *own, const struct known_frame *frame, enum known_result *result)
{
	uint32_t id = atomic_load_explicit(&count, memory_order_relaxed);
	do {
		if (id + 1 >= STACKS_MOST) {
			*result = KNOWN_FULL;
			return 0;
		}
	} while (!atomic_compare_exchange_weak_explicit(&count, &id, id + 1, memory_order_relaxed,
							memory_order_relaxed));
	id++;
	struct event_stack record = {
		.head = {sizeof record, EVENT_STACK, 0, 0},
		.id = id,
		.parent = frame->parent,
		.function = frame->function,
		.file = frame->file,
		.line = frame->line,
		.first_line = frame->first_line,
		.module = frame->module,
		.class = frame->class,
	};
	if (!sink_write_spared(own, &record)) {
		/* If no later number has been given, this one is given again. */
		uint32_t last = id;
		atomic_compare_exchange_strong_explicit(&count, &last, id - 1, memory_order_relaxed,
							memory_order_relaxed);
		*result = KNOWN_NO_ROOM;
		return 0;
	}
	known->frames[id] = *frame;
	return id;
}

enum known_result known_number(struct sink_thread *own, const struct known_frame *frame, uint32_t *ret)
{
	uint64_t hash = mix(mix(frame->parent, (uint64_t)frame->function << 32 | frame->file),
			    (uint64_t)frame->line << 32 | frame->first_line);
	if (frame->class)
		hash = mix(hash, (uint64_t)frame->module << 32 | frame->class);
	uint32_t added = 0;
	/* Half of the slots are always free. */
	for (uint32_t at = (uint32_t)hash % SLOTS;; at = (at + 1) % SLOTS) {
		_Atomic uint32_t *slot = &known->slots[at];
		uint32_t there = atomic_load_explicit(slot, memory_order_acquire);
		if (!there) {
			enum known_result result = KNOWN_OK;
			if (!added && !(added = add(own, frame, &result)))
				return result;
			if (atomic_compare_exchange_strong_explicit(slot, &there, added, memory_order_acq_rel,
								    memory_order_acquire))
				there = added;
		}
		if (there == added || is_same(&known->frames[there], frame)) {
			*ret = there;
			return KNOWN_OK;
		}
	}
}

enum known_result known_stack(struct python *python, struct sink_thread *own, const struct python_frame *frames,
			      size_t frame_count, uint32_t *ret)
{
	enum known_result result = KNOWN_OK;
	*ret = 0;
	for (size_t i = frame_count; i-- > 0 && result == KNOWN_OK;) {
		const struct known_code *code = code_of(python, own, frames[i].code);
		if (!code)
			return KNOWN_GONE;
		struct known_frame frame = {*ret,
					    code->function,
					    code->file,
					    line_of(python, code, frames[i].instruction),
					    code->first_line,
					    0,
					    0};
		result = known_number(own, &frame, ret);
	}
	return result;
}
