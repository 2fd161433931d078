/* python_frames.c - loaded by tests/e2e/python_frames.py: the frames of the thread that calls, read by the agent's own code where they lie and by
 * copies. What that code takes from elsewhere in the agent is played here. */
#include "agent/core/life.h"
#include "agent/stacks/frames.h"
#include "agent/stacks/interpreter.h"
#include "agent/stacks/modules.h"

#include <time.h>

#define EXPORT __attribute__((visibility("default")))
#define DIFFER (-2)
#define SECOND 1000000000ull

struct life *life_words;
_Atomic uint64_t modules_calls[MODULES_CALLS];

void life_debug(const char *what, const char *detail)
{
	(void)what;
	(void)detail;
}

static void *(*this_thread)(void);
static __thread struct frames here, copied;

EXPORT int frames_open(void);
EXPORT int frames_still(void);
EXPORT int frames_look(uint64_t *codes, int64_t *instructions);
EXPORT uint64_t frames_ns(int copies, int times);

int frames_open(void)
{
	char sentence[248];
	int error = interpreter_find(&frames_python, sentence, sizeof sentence);
	if (error == 0)
		frames_arm(false);
	*(void **)&this_thread = interpreter_symbol("PyGILState_GetThisThreadState");
	return this_thread ? error : -1;
}

int frames_still(void)
{
	return frames_lie_still((uint64_t)(uintptr_t)this_thread());
}

/* How many frames there are, at most FRAMES; both ways where they stand still. */
int frames_look(uint64_t *codes, int64_t *instructions)
{
	uint64_t state = (uint64_t)(uintptr_t)this_thread(), hash, other;
	copied.python = frames_python;
	int count = frames_by_copies(&copied, state, &hash);
	if (frames_lie_still(state) && (frames_directly(&here, state, &other) != count || other != hash))
		return DIFFER;
	for (int i = 0; i < count; i++) {
		codes[i] = copied.now[i].code;
		instructions[i] = copied.now[i].instruction;
	}
	return count;
}

/* The shortest of some readings. */
uint64_t frames_ns(int copies, int times)
{
	uint64_t state = (uint64_t)(uintptr_t)this_thread(), hash, least = UINT64_MAX;
	struct timespec from, to;
	here.python = frames_python;
	for (int i = 0; i < times; i++) {
		clock_gettime(CLOCK_MONOTONIC, &from);
		for (int k = 0; k < 16; k++)
			(void)(copies ? frames_by_copies(&here, state, &hash) : frames_directly(&here, state, &hash));
		clock_gettime(CLOCK_MONOTONIC, &to);
		uint64_t taken =
			(uint64_t)(to.tv_sec - from.tv_sec) * SECOND + (uint64_t)to.tv_nsec - (uint64_t)from.tv_nsec;
		least = taken / 16 < least ? taken / 16 : least;
	}
	return least;
}
