/* known.c - see known.h. A stack is its innermost frame and, by its parent's number, the stack of the caller; so what two stacks have
 * in common is kept and written once. */
#include "known.h"

#include "proto/limits.h"
#include "proto/mapping.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define STACKS_MOST (LIMIT_STACKS + 1)
#define SLOTS (2 * STACKS_MOST)
/* Caches; where two share a place, the one that came first is looked up again. */
#define CODES 8192u
#define LINES 16384u

/* A function. What its code object holds is looked at each time: the object may have gone, and another lie there now. */
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

struct known_frame {
	uint32_t parent, function, file, line, first_line;
};

struct known {
	struct known_code codes[CODES];
	struct known_line lines[LINES];
	struct known_frame frames[STACKS_MOST]; /* [0] is none */
	uint32_t slots[SLOTS];
};

static struct known *known;
static uint32_t count, generation;

int known_take(void)
{
	if (!known)
		known = mapping_new(NULL, sizeof *known, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return known ? 0 : -ENOMEM;
}

void known_give_back(void)
{
	if (known)
		munmap(known, sizeof *known);
	known = NULL;
}

uint64_t known_bytes(void)
{
	return known ? sizeof *known : 0;
}

void known_forget(void)
{
	generation++;
	count = 0;
	if (known)
		memset(known->slots, 0, sizeof known->slots);
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
	return hash ^ hash >> 29;
}

/* NULL: it cannot be read. */
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
	       a->first_line == b->first_line;
}

static enum known_result add(struct sink_thread *own, const struct known_frame *frame, uint32_t *slot, uint32_t *ret)
{
	uint32_t id = count + 1;
	struct event_stack record = {
		.head = {sizeof record, EVENT_STACK, 0, 0},
		.id = id,
		.parent = frame->parent,
		.function = frame->function,
		.file = frame->file,
		.line = frame->line,
		.first_line = frame->first_line,
	};
	if (id >= STACKS_MOST)
		return KNOWN_FULL;
	if (!sink_write_spared(own, &record))
		return KNOWN_NO_ROOM;
	count = id;
	known->frames[id] = *frame;
	*slot = *ret = id;
	return KNOWN_OK;
}

static enum known_result number_of(struct sink_thread *own, const struct known_frame *frame, uint32_t *ret)
{
	uint64_t hash = mix(mix(frame->parent, (uint64_t)frame->function << 32 | frame->file),
			    (uint64_t)frame->line << 32 | frame->first_line);
	/* Half of the slots are always free. */
	for (uint32_t at = (uint32_t)hash % SLOTS;; at = (at + 1) % SLOTS) {
		uint32_t *slot = &known->slots[at];
		if (!*slot)
			return add(own, frame, slot, ret);
		if (is_same(&known->frames[*slot], frame)) {
			*ret = *slot;
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
		struct known_frame frame = {*ret, code->function, code->file,
					    line_of(python, code, frames[i].instruction), code->first_line};
		result = number_of(own, &frame, ret);
	}
	return result;
}
