/* walk.c - see walk.h.
 *
 * What may vanish while it is read, and what is done about it:
 *  - The interpreter may end on another thread and free this thread's state and frames (a daemon thread in the middle
 *    of an operator). The runtime sets a flag before, which is checked first. The end may also begin in the middle of
 *    the walk. So all threads except the process's first, which alone ends the interpreter, read by copies, which fail
 *    for unmapped memory.
 *  - A thread's state may be used on another thread (an embedding program may do so). The state names its thread, and
 *    the C frame in which its Python runs has to lie in this thread's stack. 3.9 does not have that frame: there frames
 *    are read by copies, unless the program is Python itself and nobody holds the GIL with this state.
 *  - A known function may be freed, and another one lie there: a few words of its code tell them apart.
 * The objects of a frame exist as long as the frame is in the list: Python takes a frame from the list before it
 * releases the frame's objects (except in 3.11.0 and 3.11.1). A generator's frame is taken out when it is left, and its
 * caller holds the generator. Threads of other interpreters have other states. If a thread has several, Python tells
 * the one that it keeps for the thread. */
#include "walk.h"
#include "frames.h"
#include "interpreter.h"
#include "known.h"
#include "modules.h"

#include "agent/core/life.h"
#include "agent/core/room.h"
#include "agent/core/sentence.h"
#include "proto/limits.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

/* How many threads that run operators in Python have a place at a time; a later thread can get the place of one that
 * has ended. Near a limit of the process there are fewer. */
#define WALKERS 64u
#define CACHE 4096u /* a power of two */
/* How many reads of memory may describe the new parts of a stack. */
#define READS 65536
/* Instead of a calling module: frames that were not read may be calls of modules. */
#define OUTER_UNKNOWN 1u
/* In the cache: the stack has no number, because there are more stacks than can be kept. */
#define NUMBER_NONE UINT32_MAX

struct walker {
	uint32_t generation, last_count, last_step;
	bool learned;  /* has just learned which function calls modules */
	bool last_cut; /* frames.cut of `last` */
	struct frames frames;
	/* The last new stack: its outer part is mostly also that of the next one. `numbers` begin with the outermost
	 * frame. */
	struct seen last[FRAMES];
	uint32_t numbers[FRAMES];
	struct {
		uint64_t hash;
		uint32_t number;
		uint32_t filled; /* 1 + the step in which its modules were checked last */
	} cache[CACHE];
};

/* Never unmapped. */
static struct walker *walkers;
static struct modules *walkers_modules; /* one for each walker; NULL until a capture asks for modules */
static uint32_t walkers_most;
static _Atomic uint32_t walker_count;
static void *(*this_thread)(void);
static bool with_modules;

/* For modules objects are read, and not only frames. */
static int find_python(bool modules, struct python *ret, char *sentence, size_t bytes)
{
	return modules ? interpreter_find_proved(ret, sentence, bytes) : interpreter_find(ret, sentence, bytes);
}

int walk_probe(bool modules, char *sentence, size_t bytes)
{
	struct python found;
	int error = find_python(modules, &found, sentence, bytes);
	if (error < 0)
		return error;
	if (interpreter_symbol("PyGILState_GetThisThreadState"))
		return 0;
	sentence_put(sentence, bytes, "this Python does not tell the state of a thread", NULL);
	return -ENOTSUP;
}

/* Takes memory for walkers, and for each walker's modules. 0 or -ENOMEM. */
static int take_room(bool modules)
{
	size_t each = modules ? sizeof *walkers_modules : 0;
	if (!walkers) {
		uint64_t n = room_table() / 2 / (sizeof *walkers + each);
		walkers_most = n < WALKERS ? (uint32_t)n : WALKERS;
		walkers = walkers_most ? room_map(walkers_most * sizeof *walkers) : NULL;
	}
	if (walkers && !walkers_modules && modules)
		walkers_modules = room_try(walkers_most * each);
	return walkers && (walkers_modules || !modules) ? 0 : -ENOMEM;
}

int walk_arm(bool modules, char *sentence, size_t bytes)
{
	struct python found;
	int error = find_python(modules, &found, sentence, bytes);
	if (error < 0)
		return error;
	if (!this_thread) {
		frames_know(&found);
		/* caller.c may have set frames_python with a reader that uses plain loads. */
		frames_python.memory = found.memory;
		*(void **)&this_thread = interpreter_symbol("PyGILState_GetThisThreadState");
	}
	if (!this_thread) {
		sentence_put(sentence, bytes, "this Python does not tell the state of a thread", NULL);
		return -ENOTSUP;
	}
	frames_arm(modules);
	error = take_room(modules);
	if (error == 0)
		error = known_take();
	if (error == 0)
		with_modules = modules;
	else
		sentence_put(sentence, bytes, "no memory for the table of stacks", ROOM_NEAR_LIMIT, NULL);
	return error;
}

void walk_begin(uint32_t recording)
{
	known_start(recording);
	modules_begin();
}

void walk_disarm(void)
{
	known_give_back();
	/* A late thread finds zeros. */
	madvise(walkers, walkers_most * sizeof *walkers, MADV_DONTNEED);
	if (walkers_modules)
		madvise(walkers_modules, walkers_most * sizeof *walkers_modules, MADV_DONTNEED);
}

static uint32_t walkers_taken(void)
{
	uint32_t taken = atomic_load_explicit(&walker_count, memory_order_relaxed);
	return taken < walkers_most ? taken : walkers_most;
}

uint64_t walk_bytes(void)
{
	size_t each = sizeof *walkers + (with_modules ? sizeof *walkers_modules : 0);
	return known_bytes() + walkers_taken() * each;
}

/* ---------------------------------------------------------------- numbers */

static bool is_same(const struct seen *a, const struct seen *b)
{
	return a->code == b->code && a->print == b->print && a->instruction == b->instruction &&
	       a->object == b->object && a->type == b->type;
}

static struct modules *modules_of(const struct walker *w)
{
	return &walkers_modules[w - walkers];
}

/* The calling module for the frames inside of this one. */
static uint64_t inside(const struct seen *seen, uint64_t outer)
{
	return seen->object ? seen->object : outer == OUTER_UNKNOWN ? 0 : outer;
}

/* `outer`: the module that called; 0: none. */
static enum known_result number_of(struct walker *w, struct sink_thread *thread, const struct seen *seen,
				   uint64_t outer, uint32_t *number)
{
	const struct modules_pair *module = NULL;
	struct python_code found;
	/* The function is running, so its code and its texts exist. */
	if (!python_describe(&w->frames.python, seen->code, &found))
		return KNOWN_GONE;
	if (with_modules && !seen->object) {
		enum modules_learned learned =
			modules_learn(&w->frames.python, seen->code, seen->code ^ seen->print, &found);
		if (learned == MODULES_TOO_MANY)
			return KNOWN_FULL;
		w->learned |= learned == MODULES_CALL;
	}
	if (seen->object && seen->object != outer && outer != OUTER_UNKNOWN)
		modules_find(modules_of(w), &w->frames.python, thread, outer, seen->object, seen->type, true, &module);
	int32_t line = python_line(&w->frames.python, seen->code, seen->instruction);
	struct known_frame frame = {
		.parent = *number,
		.function = sink_string(thread, found.name, strlen(found.name), EVENT_STACK),
		.file = sink_string(thread, found.file, strlen(found.file), EVENT_STACK),
		.line = line > 0 ? (uint32_t)line : 0,
		.first_line = found.line > 0 ? (uint32_t)found.line : 0,
		.module = module ? module->name : 0,
		.class = module ? module->class : 0,
	};
	if (with_modules && outer == OUTER_UNKNOWN)
		frame.class = sink_string(thread, "?", 1, EVENT_STACK);
	return known_number(thread, &frame, number);
}

/* For a stack that is not in the cache: gives numbers from the outermost frame on. */
static __attribute__((noinline)) enum known_result number_all(struct walker *w, struct sink_thread *thread,
							      uint32_t count, uint32_t *ret)
{
	uint32_t number = 0, done = 0;
	uint32_t last = w->last_count < FRAMES ? w->last_count : FRAMES;
	w->frames.python.memory.reads_left = READS;
	uint64_t outer = w->frames.cut ? OUTER_UNKNOWN : 0;
	/* A module may have another name in another step. */
	if (w->last_cut != w->frames.cut || (with_modules && w->last_step != sink_step()))
		last = 0;
	w->last_step = sink_step();
	w->last_cut = w->frames.cut;
	for (; done < count && done < last && is_same(&w->frames.now[count - 1 - done], &w->last[last - 1 - done]);
	     done++) {
		number = w->numbers[done];
		outer = inside(&w->frames.now[count - 1 - done], outer);
	}
	/* If it fails in the middle `last` must not be used. */
	w->last_count = 0;
	for (; done < count; done++) {
		const struct seen *seen = &w->frames.now[count - 1 - done];
		enum known_result result = number_of(w, thread, seen, outer, &number);
		if (result != KNOWN_OK)
			return result;
		w->numbers[done] = number;
		outer = inside(seen, outer);
	}
	memcpy(w->last, w->frames.now, count * sizeof *w->frames.now);
	w->last_count = count;
	*ret = number;
	return KNOWN_OK;
}

/* Are the modules of a known stack still the same? Asked once in a step. */
static bool are_modules_same(struct walker *w, struct sink_thread *thread, uint32_t count)
{
	const struct modules_pair *pair;
	uint64_t outer = w->frames.cut ? OUTER_UNKNOWN : 0;
	w->frames.python.memory.reads_left = READS;
	for (uint32_t i = count; i-- > 0; outer = inside(&w->frames.now[i], outer)) {
		const struct seen *seen = &w->frames.now[i];
		if (!seen->object || seen->object == outer || outer == OUTER_UNKNOWN)
			continue;
		if (!modules_find(modules_of(w), &w->frames.python, thread, outer, seen->object, seen->type, false,
				  &pair))
			return false;
	}
	return true;
}

/* Can the cache's entry for this stack be used as it is? */
static inline bool is_cached(struct walker *w, struct sink_thread *thread, uint32_t at, uint64_t hash, uint32_t count)
{
	uint32_t now = sink_step() + 1;
	if (__builtin_expect(!w->cache[at].filled || w->cache[at].hash != hash, 0))
		return false;
	if (!with_modules || w->cache[at].filled == now)
		return true;
	if (!are_modules_same(w, thread, count)) {
		w->last_count = 0;
		return false;
	}
	w->cache[at].filled = now;
	return true;
}

static struct walker *walker_of(struct sink_thread *thread)
{
	void **memory = sink_memory(thread);
	struct walker *w = *memory;
	uint32_t recording = sink_recording();
	if (!w) {
		uint32_t taken = atomic_load_explicit(&walker_count, memory_order_relaxed);
		if (taken >= walkers_most)
			return NULL;
		taken = atomic_fetch_add_explicit(&walker_count, 1, memory_order_relaxed);
		if (taken >= walkers_most)
			return NULL;
		w = *memory = &walkers[taken];
	}
	if (w->generation != recording) {
		memset(w->cache, 0, sizeof w->cache);
		w->last_count = 0;
		w->frames.newest = 0;
		w->frames.python = frames_python;
		w->generation = recording;
	}
	return w;
}

static uint32_t lose(uint8_t kind)
{
	sink_lost(LOSS_STACKLESS, kind);
	return 0;
}

/* Returns the number of new calls of modules; they are not new in the next stack. */
static inline uint8_t take_entered(struct walker *w)
{
	w->frames.newest = w->frames.made > w->frames.newest ? w->frames.made : w->frames.newest;
	return (uint8_t)(w->frames.entered < UINT8_MAX ? w->frames.entered : UINT8_MAX);
}

uint32_t walk_own(struct sink_thread *thread, uint8_t kind, uint8_t *ret_entered)
{
	uint64_t state = (uint64_t)(uintptr_t)this_thread(), hash;
	const uint64_t *ending = (const uint64_t *)(uintptr_t)(frames_python.runtime +
							       (uint64_t)frames_python.offsets.runtime_finalizing);
	uint32_t number = 0;
	if (!state || __atomic_load_n(ending, __ATOMIC_RELAXED))
		return 0;
	struct walker *w = walker_of(thread);
	if (!w)
		return lose(kind);
	int saved = errno, count;
	if (sink_tid(thread) == (uint32_t)life_words->process && frames_lie_still(state)) {
		count = frames_directly(&w->frames, state, &hash);
	} else {
		count = frames_by_copies(&w->frames, state, &hash);
		errno = saved;
	}
	if (count <= 0)
		return count < 0 ? lose(kind) : 0;
	_Static_assert((CACHE & (CACHE - 1)) == 0, "the index is cut from the hash");
	uint32_t at = (uint32_t)(hash >> 40) & (CACHE - 1);
	if (__builtin_expect(is_cached(w, thread, at, hash, (uint32_t)count), 1)) {
		errno = saved;
		number = w->cache[at].number;
		*ret_entered = take_entered(w);
		return number == NUMBER_NONE ? lose(kind) : number;
	}
	enum known_result result = number_all(w, thread, (uint32_t)count, &number);
	errno = saved;
	if (w->learned) {
		/* Rare: the frames were read without modules, so they are read again. */
		w->learned = false;
		w->last_count = 0;
		return walk_own(thread, kind, ret_entered);
	}
	if (result != KNOWN_OK && result != KNOWN_FULL)
		return lose(kind);
	w->cache[at].hash = hash;
	w->cache[at].number = result == KNOWN_OK ? number : NUMBER_NONE;
	w->cache[at].filled = sink_step() + 1;
	*ret_entered = take_entered(w);
	return result == KNOWN_OK ? number : lose(kind);
}
