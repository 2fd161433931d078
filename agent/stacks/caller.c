/* caller.c - see caller.h. Frames and names are read in place by plain loads, so the job makes no system call for it,
 * also while nothing is recorded. That is safe only on the process's first thread: its frames do not change while it is
 * in the agent, they keep their objects alive, and only this thread ends the interpreter (walk.c). */
#include "caller.h"
#include "frames.h"
#include "interpreter.h"

#include "agent/core/life.h"
#include "agent/sink/control.h"

#include <stdatomic.h>
#include <string.h>

/* In a str: its number of characters, and its bits. */
#define TEXT_LENGTH 16
#define TEXT_COMPACT 5
#define TEXT_ASCII 6
/* A longer name, with or without its class, is read only in its last part. */
#define NAME_MOST 63

static struct frames frames;
static void *(*this_thread)(void);
static atomic_bool known;
/* The last stack and its answer: the next stack is mostly the same. */
static uint64_t last_hash;
static enum purpose last;

void caller_find(void)
{
	struct python python;
	if (atomic_load_explicit(&known, memory_order_relaxed) || !interpreter_layout(&python))
		return;
	*(void **)&this_thread = interpreter_symbol("PyGILState_GetThisThreadState");
	if (!this_thread)
		return;
	frames_know(&python);
	frames_arm(false);
	atomic_store_explicit(&known, true, memory_order_release);
}

static uint64_t word(uint64_t at)
{
	uint64_t ret;
	memcpy(&ret, (const void *)(uintptr_t)at, sizeof ret);
	return ret;
}

/* Decides by the end of the function's name. Reads no byte after the name: the memory may end there. */
static enum purpose purpose_of_code(uint64_t code)
{
	const struct python_offsets *o = &frames_python.offsets;
	char name[NAME_MOST + 1];
	uint32_t state;
	uint64_t text = word(code + (uint64_t)o->code_name), length = word(text + TEXT_LENGTH);
	memcpy(&state, (const void *)(uintptr_t)(text + (uint64_t)o->text_state), sizeof state);
	/* Names with characters outside of ASCII are not known. */
	if (!(state >> TEXT_COMPACT & 1) || !(state >> TEXT_ASCII & 1) || length > INT64_MAX)
		return PURPOSE_NONE;
	size_t n = length < NAME_MOST ? (size_t)length : NAME_MOST;
	memcpy(name, (const char *)(uintptr_t)(text + (uint64_t)o->text_ascii) + (length - n), n);
	name[n] = 0;
	return purpose_of(name);
}

static enum purpose purpose_of_frames(int count)
{
	enum purpose ret = PURPOSE_NONE;
	/* Goes on to the callers as long as nothing is known, or only that it is an evaluation. */
	for (int i = 0; i < count && (ret == PURPOSE_NONE || ret == PURPOSE_EVALUATION); i++) {
		enum purpose own = purpose_of_code(frames.now[i].code);
		bool decides = ret == PURPOSE_EVALUATION && own != PURPOSE_NONE && own != PURPOSE_EVALUATION;
		ret = purpose_within(ret, own);
		if (decides)
			break;
	}
	return ret;
}

enum purpose caller_purpose(void)
{
	uint64_t hash;
	if (!atomic_load_explicit(&known, memory_order_acquire) || (int)sink_own_tid() != life_words->process)
		return PURPOSE_NONE;
	uint64_t state = (uint64_t)(uintptr_t)this_thread();
	const uint64_t *ending = (const uint64_t *)(uintptr_t)(frames_python.runtime +
							       (uint64_t)frames_python.offsets.runtime_finalizing);
	if (!state || __atomic_load_n(ending, __ATOMIC_RELAXED) || !frames_lie_still(state))
		return PURPOSE_NONE;
	int count = frames_directly(&frames, state, &hash);
	if (count <= 0)
		return PURPOSE_NONE;
	if (hash != last_hash) {
		last = purpose_of_frames(count);
		last_hash = hash;
	}
	return last;
}
