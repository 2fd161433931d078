/* pass.c - which pass over a DataLoader asks for a batch? The first local in the frame of torch's `__next__` is the
 * iterator, and its attributes tell. The frames are found as in which.c. The objects are copied by the kernel, which
 * fails for unmapped memory. That is slow, but only a capture needs it. */
#include "../core/sentence.h"
#include "../stacks/interpreter.h"
#include "internal.h"
#include "torch.h"

#include "proto/python/dict.h"

#include <errno.h>

/* `__next__` is not the innermost frame: torch's own __enter__ and its call of the operator lie inside of it. */
#define FRAMES 8
#define READS 1024
#define NAME_BYTES 128

static struct python own; /* never changed once it is found */
static atomic_bool found;
/* The code of `__next__` that was found last. */
static _Atomic uint64_t known;
/* The attributes that are read: their usual index in the dict, and the address of the str object of their name, which
 * torch's code keeps alive. */
static struct {
	const char *name;
	_Atomic uint32_t place;
	_Atomic uint64_t key;
} attributes[] = {{.name = "_num_yielded"}, {.name = "_dataset"}, {.name = "_index_sampler"}};

int torch_find_passes(char *sentence, size_t bytes)
{
	struct python python;
	if (atomic_load_explicit(&found, memory_order_relaxed))
		return 0;
	int error = interpreter_find_proved(&python, sentence, bytes);
	if (error < 0)
		return error;
	if (!torch_knows_frames()) {
		sentence_put(sentence, bytes, "how this program's Python keeps its frames is not known", NULL);
		return -ENOTSUP;
	}
	own = python;
	atomic_store_explicit(&found, true, memory_order_release);
	return 0;
}

static bool is_next(struct python *python, uint64_t code)
{
	char name[NAME_BYTES];
	uint64_t text = code ? python_word(&python->memory, code + (uint64_t)python->offsets.code_name) : 0;
	if (!text || !python_text(python, text, name, sizeof name))
		return false;
	/* From 3.11 on this is the qualified name, with the class first. */
	const char *dot = strrchr(name, '.');
	return strcmp(dot ? dot + 1 : name, "__next__") == 0;
}

/* Index of the frame of `__next__`; `count`: there is none. */
static uint32_t find_next(struct python *python, const struct torch_frame *frames, uint32_t count)
{
	uint64_t code = atomic_load_explicit(&known, memory_order_relaxed);
	for (uint32_t i = 0; code && i < count; i++)
		if (frames[i].code == code)
			return i;
	for (uint32_t i = 0; i < count; i++) {
		if (!is_next(python, frames[i].code))
			continue;
		atomic_store_explicit(&known, frames[i].code, memory_order_relaxed);
		return i;
	}
	return count;
}

static uint64_t attribute(struct python *python, const struct python_items *items, uint32_t which)
{
	uint32_t place = atomic_load_explicit(&attributes[which].place, memory_order_relaxed);
	uint64_t key = atomic_load_explicit(&attributes[which].key, memory_order_relaxed);
	const struct python_keys *keys = &items->keys;
	if (key && place < keys->count &&
	    python_word(&python->memory, keys->entries + (uint64_t)place * keys->size + keys->key) == key)
		return python_word(&python->memory, python_items_slot(items, place));
	uint64_t ret = python_items_find(python, items, attributes[which].name, &place);
	if (ret) {
		key = python_word(&python->memory, keys->entries + (uint64_t)place * keys->size + keys->key);
		atomic_store_explicit(&attributes[which].place, place, memory_order_relaxed);
		atomic_store_explicit(&attributes[which].key, key, memory_order_relaxed);
	}
	return ret;
}

static bool read_iterator(struct python *python, uint64_t self, struct steps_pass *ret)
{
	struct python_items items;
	ret->iterator = self;
	if (!self || !python_attributes_open(python, self, &items) ||
	    !python_number(python, attribute(python, &items, 0), &ret->yielded))
		return false;
	ret->dataset = attribute(python, &items, 1);
	ret->sampler = attribute(python, &items, 2);
	return ret->dataset != 0;
}

void torch_pass(struct steps_pass *ret)
{
	struct torch_frame frames[FRAMES];
	int saved = errno;
	*ret = (struct steps_pass){.has_gradients =
					   !torch_symbols.gradients_enabled || torch_symbols.gradients_enabled()};
	if (!atomic_load_explicit(&found, memory_order_acquire))
		return;
	struct python python = own;
	python.memory.reads_left = READS;
	uint32_t count = torch_frames(frames, FRAMES), at = find_next(&python, frames, count);
	if (at < count)
		ret->is_known = read_iterator(&python, frames[at].first, ret);
	/* The place of the program that asks. */
	if (at + 1 < count)
		ret->place = frames[at + 1].code * 0x9e3779b97f4a7c15u ^ frames[at + 1].instruction;
	errno = saved;
}
