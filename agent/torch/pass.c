/* pass.c - which pass over a DataLoader asks for a batch? In the frame of torch's `__next__` the first local is the iterator, whose attributes tell.
 * The frames are found as in which.c. What they lead to is read by copies, which fail where there is no memory: only a capture asks for it. */
#include "../core/sentence.h"
#include "../stacks/interpreter.h"
#include "internal.h"
#include "torch.h"

#include "proto/python/dict.h"

#include <errno.h>

/* The ends of a range's begin lie inside of it: torch's own __enter__, and what calls the operator. */
#define FRAMES 8
#define READS 1024
#define NAME_BYTES 128
/* As in frames.c: of a reference, from 3.14 on. */
#define MARKS 3u

static struct python own; /* never changed once it is found */
static atomic_bool found;
/* The code of `__next__` that was met last. */
static _Atomic uint64_t known;
/* Where attributes mostly are among the others. */
static _Atomic uint32_t places[3];

int torch_find_passes(char *sentence, size_t bytes)
{
	struct python python;
	if (atomic_load_explicit(&found, memory_order_relaxed))
		return 0;
	int error = interpreter_find(&python, sentence, bytes);
	if (!error)
		error = interpreter_prove(&python, sentence, bytes);
	if (error)
		return error;
	if (!torch_knows_frames()) {
		sentence_put(sentence, bytes, "how this program's Python keeps its frames is not known", NULL);
		return -ENOTSUP;
	}
	own = python;
	atomic_store_explicit(&found, true, memory_order_release);
	return 0;
}

static uint64_t code_of(struct python *python, uint64_t frame)
{
	uint64_t code = python_word(&python->memory, frame + (uint64_t)python->offsets.frame_code);
	return python->minor >= 14 ? code & ~(uint64_t)MARKS : code;
}

static bool is_next(struct python *python, uint64_t code)
{
	char name[NAME_BYTES];
	if (code && code == atomic_load_explicit(&known, memory_order_relaxed))
		return true;
	uint64_t text = python_word(&python->memory, code + (uint64_t)python->offsets.code_name);
	/* From 3.11 on names have their class before them. */
	if (!code || !text || !python_text(python, text, name, sizeof name))
		return false;
	const char *dot = strrchr(name, '.');
	if (strcmp(dot ? dot + 1 : name, "__next__") != 0)
		return false;
	atomic_store_explicit(&known, code, memory_order_relaxed);
	return true;
}

static uint64_t attribute(struct python *python, const struct python_items *items, uint32_t which)
{
	static const char *const names[] = {"_num_yielded", "_dataset", "_index_sampler"};
	uint32_t place = atomic_load_explicit(&places[which], memory_order_relaxed);
	uint64_t ret = python_items_find(python, items, names[which], &place);
	atomic_store_explicit(&places[which], place, memory_order_relaxed);
	return ret;
}

static bool read_iterator(struct python *python, uint64_t frame, struct steps_pass *ret)
{
	struct python_items items;
	uint64_t self = python_word(&python->memory, frame + (uint64_t)python->offsets.frame_locals);
	if (python->minor >= 14)
		self = (self & MARKS) == MARKS ? 0 : self & ~(uint64_t)MARKS;
	ret->iterator = self;
	if (!self || !python_attributes_open(python, self, &items) ||
	    !python_number(python, attribute(python, &items, 0), &ret->yielded))
		return false;
	ret->dataset = attribute(python, &items, 1);
	ret->sampler = attribute(python, &items, 2);
	return ret->dataset != 0;
}

/* Who asks: the code, and where in it. */
static uint64_t place_of(struct python *python, uint64_t frame)
{
	const struct python_offsets *o = &python->offsets;
	uint64_t instruction = python_word(&python->memory, frame + (uint64_t)o->frame_instruction);
	if (o->code_start < 0)
		instruction = (uint32_t)instruction;
	return code_of(python, frame) * 0x9e3779b97f4a7c15u ^ instruction;
}

void torch_pass(struct steps_pass *ret)
{
	uint64_t frames[FRAMES];
	int saved = errno;
	*ret = (struct steps_pass){.has_gradients =
					   !torch_symbols.gradients_enabled || torch_symbols.gradients_enabled()};
	if (!atomic_load_explicit(&found, memory_order_acquire))
		return;
	struct python python = own;
	python.memory.reads_left = READS;
	uint32_t count = torch_frames(frames, FRAMES), at = 0;
	while (at < count && !is_next(&python, code_of(&python, frames[at])))
		at++;
	if (at < count)
		ret->is_known = read_iterator(&python, frames[at], ret);
	if (at + 1 < count)
		ret->place = place_of(&python, frames[at + 1]);
	errno = saved;
}
