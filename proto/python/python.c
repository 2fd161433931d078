/* python.c - see python.h: interpreters, threads and frames. */
#include "python.h"

#include "code.h"

#include <string.h>

#define INTERPRETERS_MOST 64
#define WALK_TRIES 64
#define OWNED_BY_C                                                                                                     \
	3 /* from 3.12 on: a frame that only marks where C called Python; 3.14 has one more value, for a thread's
	   * outermost frame */
#define IS_ENTRY                                                                                                       \
	(-1) /* 3.11: the byte before the owner says whether C called the frame; before 3.11 C called every
		       * frame */

enum python_result python_open(struct python *python, const struct python_memory *memory, uint64_t runtime,
			       unsigned minor)
{
	*python = (struct python){.memory = *memory, .runtime = runtime, .minor = minor, .tries = WALK_TRIES};
	switch (python_offsets_find(&python->memory, runtime, &python->minor, &python->offsets)) {
	case OFFSETS_UNREADABLE:
		return PYTHON_UNREADABLE;
	case OFFSETS_UNKNOWN:
		return PYTHON_UNKNOWN;
	case OFFSETS_FREE_THREADED:
		return PYTHON_FREE_THREADED;
	case OFFSETS_KNOWN:
		break;
	}
	const struct python_offsets *o = &python->offsets;
	uint64_t head;
	if (!python_read(&python->memory, runtime + (uint64_t)o->runtime_head, &head, sizeof head))
		return PYTHON_UNREADABLE;
	if (!head)
		return PYTHON_NOT_READY;
	return python_word(&python->memory, runtime + (uint64_t)o->runtime_finalizing) ? PYTHON_FINALIZING : PYTHON_OK;
}

static uint64_t field(struct python *python, uint64_t object, int32_t offset)
{
	return python_word(&python->memory, object + (uint64_t)offset);
}

/* The thread state that holds the interpreter's GIL; 0: none. */
static uint64_t gil_holder(struct python *python, uint64_t interpreter)
{
	const struct python_offsets *o = &python->offsets;
	uint64_t gil = o->interpreter_gil < 0 ? python->runtime : field(python, interpreter, o->interpreter_gil);
	int32_t locked = 0;

	if (!python_read(&python->memory, gil + (uint64_t)o->gil_locked, &locked, sizeof locked) || locked != 1)
		return 0;
	return field(python, gil, o->gil_holder);
}

static bool read_thread(struct python *python, uint64_t state, struct python_thread *ret)
{
	const struct python_offsets *o = &python->offsets;

	ret->state = state;
	ret->native = 0;
	if (!python_read(&python->memory, state + (uint64_t)o->thread_ident, &ret->ident, sizeof ret->ident))
		return false;
	if (o->thread_native >= 0)
		ret->native = (uint32_t)field(python, state, o->thread_native);
	return true;
}

bool python_holder(struct python *python, uint64_t interpreter, struct python_thread *ret)
{
	uint64_t state = gil_holder(python, interpreter);

	ret->interpreter = interpreter;
	ret->holds_gil = true;
	return state && read_thread(python, state, ret);
}

int python_threads(struct python *python, struct python_thread *ret, size_t room)
{
	const struct python_offsets *o = &python->offsets;
	uint64_t interpreter = field(python, python->runtime, o->runtime_head);
	size_t count = 0;

	for (int i = 0; interpreter && i < INTERPRETERS_MOST; i++) {
		uint64_t holder = gil_holder(python, interpreter);
		uint64_t state = field(python, interpreter, o->interpreter_threads);

		while (state && count < room) {
			struct python_thread *thread = &ret[count];
			if (!read_thread(python, state, thread))
				return count ? (int)count : -1;
			thread->interpreter = interpreter;
			thread->holds_gil = holder == state;
			count++;
			state = field(python, state, o->thread_next);
		}
		interpreter = field(python, interpreter, o->interpreter_next);
	}
	return (int)count;
}

static uint64_t word_at(const unsigned char *bytes, int32_t offset)
{
	uint64_t value;
	memcpy(&value, bytes + offset, sizeof value);
	return value;
}

/* Up to 3.10 a frame has the number of its last instruction, from 3.10 on counted in pairs of bytes. */
static int64_t instruction_of(const struct python *python, const unsigned char *bytes, uint64_t code)
{
	const struct python_offsets *o = &python->offsets;
	int32_t last;

	if (o->code_start >= 0)
		return (int64_t)(word_at(bytes, o->frame_instruction) - (code + (uint64_t)o->code_start));
	memcpy(&last, bytes + o->frame_instruction, sizeof last);
	return python->minor >= 10 ? (int64_t)last * 2 : last;
}

/* Sets *at to the address of the innermost frame; 0: there is none. False: it cannot be read. */
static bool read_innermost(struct python *python, uint64_t state, uint64_t *at)
{
	const struct python_offsets *o = &python->offsets;

	return python_read(&python->memory, state + (uint64_t)o->thread_frame, at, sizeof *at) &&
	       (o->cframe_current < 0 || !*at ||
		python_read(&python->memory, *at + (uint64_t)o->cframe_current, at, sizeof *at));
}

/* Did C call this frame? From 3.12 on a mark after the frame tells it. */
static bool is_entry(const struct python *python, const unsigned char *bytes)
{
	return python->minor < 11 || (python->minor == 11 && bytes[python->offsets.frame_owner + IS_ENTRY]);
}

/* One reading of the frames. False: it is torn. */
static bool read_frames(struct python *python, uint64_t state, struct python_frame *frames, size_t room, size_t *count,
			bool *more, uint64_t *innermost)
{
	const struct python_offsets *o = &python->offsets;
	unsigned char bytes[PYTHON_FRAME_BYTES];
	uint64_t at;

	*count = 0;
	*more = false;
	if (!read_innermost(python, state, &at))
		return false;
	*innermost = at;
	/* Goes through at most twice the room: marks of C calls do not count as frames, and a torn list may be a
	 * circle. */
	for (size_t i = 0; at; i++) {
		if (*count == room || i == 2 * room) {
			*more = true;
			return true;
		}
		if (!python_read(&python->memory, at, bytes, sizeof bytes))
			return false;
		bool marks = o->frame_owner >= 0 && python->minor >= 12 && bytes[o->frame_owner] >= OWNED_BY_C;
		uint64_t code = word_at(bytes, o->frame_code) & ~(uint64_t)(python->minor >= 14 ? 3 : 0);
		if (!marks) {
			if (!code)
				return false;
			frames[*count] = (struct python_frame){at, code, instruction_of(python, bytes, code),
							       is_entry(python, bytes)};
			++*count;
		} else if (*count) {
			frames[*count - 1].entry = true;
		}
		at = word_at(bytes, o->frame_previous);
	}
	return true;
}

/* Are two readings alike? The innermost frame may have gone on to another instruction meanwhile. */
static bool alike(const struct python_frame *one, size_t count, const struct python_frame *other, size_t others)
{
	if (count != others)
		return false;
	for (size_t i = 0; i < count; i++)
		if (one[i].address != other[i].address || one[i].code != other[i].code ||
		    (i && one[i].instruction != other[i].instruction))
			return false;
	return true;
}

/* Do two readings of a thread have the same outermost frame? */
static bool same_origin(const struct python_frame *one, size_t count, const struct python_frame *other, size_t others)
{
	return count && others && one[count - 1].address == other[others - 1].address &&
	       one[count - 1].code == other[others - 1].code;
}

/* Does a program, or a Python thread, begin with this function? */
static bool is_origin(struct python *python, uint64_t code)
{
	struct python_code found;

	return python_describe(python, code, &found) &&
	       (strcmp(found.name, "<module>") == 0 || strcmp(found.name, "_bootstrap") == 0 ||
		strcmp(found.name, "Thread._bootstrap") == 0 || strcmp(found.name, "_run_module_as_main") == 0);
}

static bool has_origin(struct python *python, const struct python_frame *frames, size_t count, bool more)
{
	return !count || more || is_origin(python, frames[count - 1].code);
}

enum python_walk_result python_walk(struct python *python, uint64_t state, struct python_frame *frames,
				    struct python_frame *scratch, size_t room, size_t *count, bool *more,
				    unsigned *torn)
{
	bool moving = false, again;
	uint64_t innermost, last;
	size_t others;

	*torn = 0;
	*count = 0;
	for (unsigned i = 0; i < python->tries && python->memory.reads_left; i++) {
		if (!read_frames(python, state, scratch, room, &others, &again, &innermost) ||
		    !read_frames(python, state, frames, room, count, more, &innermost)) {
			++*torn;
			continue;
		}
		/* A thread in a loop may leave the same mixture twice, but it is hardly at the same place all three
		 * times. */
		if (alike(frames, *count, scratch, others) && read_innermost(python, state, &last) && last == innermost)
			return has_origin(python, frames, *count, *more) ? WALK_WHOLE : WALK_ODD;
		++*torn;
		moving = same_origin(frames, *count, scratch, others);
		/* The thread has been busy for long: takes the last reading, whose outermost frame is the same as
		 * before. */
		if (moving && i >= python->tries / 2)
			return has_origin(python, frames, *count, *more) ? WALK_MOVING : WALK_ODD;
	}
	*count = 0;
	return WALK_TORN;
}
