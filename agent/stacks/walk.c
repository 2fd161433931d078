/* walk.c - see walk.h.
 *
 * What may go away under the reader, and what is done about it:
 *  - The interpreter ends on another thread and takes this one's state and frames with it (a daemon thread in the middle of an
 *    operator). The runtime says so before it does; that is looked at first. As it may begin in the middle of the walk, all threads but the
 *    process's first, which ends the interpreter itself, read by copies that fail where there is no memory.
 *  - A thread's state is used on another thread (an embedding program may do so). The state names its thread, and the C frame in which its
 *    Python runs has to lie in the stack of this one.
 *  - A function that was known has gone, and another one lies there: a few words of its code tell them apart.
 * Other interpreters' threads have states of their own; of several on one thread Python tells the one that it holds for the thread's. */
#include "walk.h"
#include "interpreter.h"
#include "known.h"
#include "modules.h"

#include "agent/core/life.h"
#include "agent/core/sentence.h"
#include "proto/limits.h"
#include "proto/mapping.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

/* As in the sampler: the innermost frames of a stack. Marks of C's calls are not counted, but bounded. */
#define FRAMES 512
/* Threads that run operators in Python, in the process's life; a thread that has ended leaves its place. */
#define WALKERS 64
#define CACHE 4096u /* a power of two */
#define WINDOWS 8u
#define PAGE 4096u
/* How far up in its stack a thread may have begun to run Python. */
#define STACK_MOST (256ull << 20)
#define OWNED_BY_C 3
/* Reads of memory to describe what is new of one stack. */
#define READS 65536
/* In the place of a calling module: frames that are not read may be calls of modules. */
#define OUTER_UNKNOWN 1u
/* In the frame of a call of a module: behind the module and the other arguments. And in a dict, of releases that have it. */
#define FRAME_KEYWORDS 16
#define DICT_VERSION 24
/* In the cache: more stacks than are kept. */
#define NUMBER_NONE UINT32_MAX

struct seen {
	uint64_t code, print;
	int64_t instruction;
	uint64_t object, type; /* of a call of a module: the module; else 0 */
};

struct walker {
	uint32_t generation, last_count;
	uint32_t window_count, last_step;
	bool learned;	       /* a moment ago, which function calls modules */
	bool cut, last_cut;    /* the stack has more frames, outside of those that are read */
	uint64_t made, newest; /* see read_call(): the newest one of this stack, and of those before */
	uint32_t entered;      /* calls of this stack that are newer than those */
	struct python python;
	struct seen now[FRAMES];
	/* The last stack that was new: the outer part is mostly that of the next one. Its numbers begin with the outermost frame. */
	struct seen last[FRAMES];
	uint32_t numbers[FRAMES];
	struct {
		uint64_t hash;
		uint32_t number;
		uint32_t filled; /* 1 + the step in which its modules were looked at */
	} cache[CACHE];
	struct {
		uint64_t page;
		unsigned char bytes[PAGE];
	} windows[WINDOWS];
};

/* Never unmapped. */
static struct walker *walkers;
static struct modules *walkers_modules; /* of each; NULL until they are asked for */
static _Atomic uint32_t walker_count;
/* Found once, and never changed: a thread that is late goes on by it. */
static struct python python;
static void *(*this_thread)(void);
static bool with_modules;
/* A frame that Python is about to drop is to be seen before 3.11.2, with objects that are there no more. */
static bool drops_in_sight;
static bool counts_calls;

int walk_probe(char *sentence, size_t bytes)
{
	struct python found;
	int error = interpreter_find(&found, sentence, bytes);
	if (error < 0)
		return error;
	if (interpreter_symbol("PyGILState_GetThisThreadState"))
		return 0;
	sentence_put(sentence, bytes, "this Python does not tell the state of a thread", NULL);
	return -ENOTSUP;
}

/* Memory for each walker. */
static void *map_each(size_t bytes)
{
	return mapping_new(NULL, WALKERS * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			   -1, 0);
}

int walk_arm(bool modules, char *sentence, size_t bytes)
{
	struct python found;
	int error = interpreter_find(&found, sentence, bytes);
	if (error == 0 && modules)
		error = modules_probe(&found, sentence, bytes);
	if (error < 0)
		return error;
	with_modules = modules;
	if (!this_thread) {
		python = found;
		*(void **)&this_thread = interpreter_symbol("PyGILState_GetThisThreadState");
	}
	if (!this_thread) {
		sentence_put(sentence, bytes, "this Python does not tell the state of a thread", NULL);
		return -ENOTSUP;
	}
	const unsigned long *version = interpreter_symbol("Py_Version");
	counts_calls = python.minor <= 13;
	drops_in_sight = python.minor == 11 && (!version || (*version >> 8 & 0xff) < 2);
	if (!walkers)
		walkers = map_each(sizeof *walkers);
	if (!walkers_modules && modules)
		walkers_modules = map_each(sizeof *walkers_modules);
	return walkers && (walkers_modules || !modules) ? known_take() : -ENOMEM;
}

void walk_begin(uint32_t recording)
{
	known_start(recording);
	modules_begin();
}

void walk_disarm(void)
{
	known_give_back();
	/* A thread that is late finds zeros. */
	madvise(walkers, WALKERS * sizeof *walkers, MADV_DONTNEED);
	if (walkers_modules)
		madvise(walkers_modules, WALKERS * sizeof *walkers_modules, MADV_DONTNEED);
}

static uint32_t walkers_taken(void)
{
	uint32_t taken = atomic_load_explicit(&walker_count, memory_order_relaxed);
	return taken < WALKERS ? taken : WALKERS;
}

uint64_t walk_bytes(void)
{
	size_t each = sizeof *walkers + (with_modules ? sizeof *walkers_modules : 0);
	return known_bytes() + walkers_taken() * each;
}

/* ---------------------------------------------------------------- reading */

static bool read_by_pages(struct walker *w, uint64_t at, void *to, size_t bytes)
{
	uint64_t page = at / PAGE * PAGE;
	uint32_t i = 0;
	while (i < w->window_count && i < WINDOWS && w->windows[i].page != page)
		i++;
	if (at - page + bytes > PAGE)
		return false;
	if (i >= w->window_count || i >= WINDOWS) {
		/* More pages than are kept: the last one makes room. */
		i = w->window_count < WINDOWS ? w->window_count++ : WINDOWS - 1;
		w->windows[i].page = 0;
		if (!python_read(&w->python.memory, page, w->windows[i].bytes, PAGE))
			return false;
		w->windows[i].page = page;
	}
	memcpy(to, w->windows[i].bytes + (at - page), bytes);
	return true;
}

static inline __attribute__((always_inline)) bool load(struct walker *w, bool copies, uint64_t at, int32_t offset,
						       void *to, size_t bytes)
{
	at += (uint64_t)offset;
	if (copies)
		return read_by_pages(w, at, to, bytes);
	memcpy(to, (const void *)(uintptr_t)at, bytes);
	return true;
}

static inline bool is_pointer(uint64_t at)
{
	return at >= PAGE && at % sizeof(void *) == 0;
}

/* Does it lie above, in the stack of the calling thread? */
static inline bool is_in_own_stack(uint64_t at)
{
	uint64_t here = (uint64_t)(uintptr_t)__builtin_frame_address(0);
	return at > here && at - here < STACK_MOST;
}

static inline uint64_t mix(uint64_t a, uint64_t b)
{
	__uint128_t product = (__uint128_t)(a ^ 0xa0761d6478bd642full) * (b ^ 0xe7037ed1a0b428dbull);
	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline __attribute__((always_inline)) bool read_code(struct walker *w, bool copies, uint64_t code,
							    uint64_t *print)
{
	const struct python_offsets *o = &python.offsets;
	uint64_t name, file, table;
	uint32_t line;
	if (!is_pointer(code) || !load(w, copies, code, o->code_name, &name, sizeof name) ||
	    !load(w, copies, code, o->code_file, &file, sizeof file) ||
	    !load(w, copies, code, o->code_table, &table, sizeof table) ||
	    !load(w, copies, code, o->code_line, &line, sizeof line))
		return false;
	*print = mix(name + line, file ^ (table << 20 | table >> 44));
	return true;
}

static inline __attribute__((always_inline)) bool read_frame(struct walker *w, bool copies, uint64_t at, uint64_t code,
							     struct seen *to)
{
	const struct python_offsets *o = &python.offsets;
	int64_t instruction;
	int32_t last;
	if (o->code_start >= 0) {
		if (!load(w, copies, at, o->frame_instruction, &instruction, sizeof instruction))
			return false;
		instruction -= (int64_t)(code + (uint64_t)o->code_start);
	} else {
		if (!load(w, copies, at, o->frame_instruction, &last, sizeof last))
			return false;
		instruction = python.minor >= 10 ? (int64_t)last * 2 : last;
	}
	to->code = code;
	to->instruction = instruction;
	return read_code(w, copies, code, &to->print);
}

/* The innermost frame; false where the state is not that of Python on this thread. *at 0: no function runs. */
static inline __attribute__((always_inline)) bool innermost(struct walker *w, bool copies, uint64_t state, uint64_t *at)
{
	const struct python_offsets *o = &python.offsets;
	uint64_t ident;
	if (!load(w, copies, state, o->thread_ident, &ident, sizeof ident) ||
	    ident != (uint64_t)(uintptr_t)pthread_self() || !load(w, copies, state, o->thread_frame, at, sizeof *at))
		return false;
	if (o->cframe_current < 0 || !*at)
		return true;
	uint64_t frame;
	if (!is_pointer(*at) || !load(w, copies, *at, o->cframe_current, &frame, sizeof frame))
		return false;
	/* Where none runs it is one in the state itself. */
	if (frame && !is_in_own_stack(*at))
		return false;
	*at = frame;
	return true;
}

/* Of a call of a module: its object, whose call's frame holds it. */
static inline __attribute__((always_inline)) bool read_module(struct walker *w, bool copies, uint64_t at,
							      struct seen *to)
{
	if (!load(w, copies, at, python.offsets.frame_locals, &to->object, sizeof to->object))
		return false;
	/* From 3.14 on references have marks: 3 is a number, which is no object. */
	if (python.minor >= 14 && to->object % 4 != 3)
		to->object -= to->object % 4;
	return is_pointer(to->object) && load(w, copies, to->object, MODULES_OBJECT_TYPE, &to->type, sizeof to->type);
}

/* Python counts what it makes dicts of and how they change, and notes in each dict at what count that was. The function that calls a module
 * takes keywords: their dict is made with the frame, and nobody changes it. So this number tells one call from all others; 0: there is none. */
static inline __attribute__((always_inline)) bool read_call(struct walker *w, bool copies, uint64_t at, uint64_t *made)
{
	uint64_t keywords;
	*made = 0;
	if (!counts_calls)
		return true;
	return load(w, copies, at, python.offsets.frame_locals + FRAME_KEYWORDS, &keywords, sizeof keywords) &&
	       is_pointer(keywords) && load(w, copies, keywords, DICT_VERSION, made, sizeof *made);
}

/* Fills w->now, the innermost frame first. Returns how many there are, or -1: they could not be read. */
static inline __attribute__((always_inline)) int walk(struct walker *w, bool copies, uint64_t state, uint64_t *ret_hash)
{
	const struct python_offsets *o = &python.offsets;
	bool marked = python.minor >= 12 && o->frame_owner >= 0, own = false;
	uint32_t code_bits = python.minor >= 14 ? 3 : 0;
	uint64_t at, hash = 0;
	bool modules = with_modules, inner_is_new = false;
	uint64_t inner = 0, made;
	w->made = w->entered = 0;
	int count = 0;
	if (!innermost(w, copies, state, &at))
		return -1;
	for (int i = 0; at && count < FRAMES && i < 2 * FRAMES; i++) {
		uint8_t owner = 0;
		uint64_t code;
		if (!is_pointer(at) || (marked && !load(w, copies, at, o->frame_owner, &owner, sizeof owner)))
			return -1;
		if (marked && owner >= OWNED_BY_C) {
			if (!own && !is_in_own_stack(at))
				return -1;
			own = true;
		} else {
			struct seen *seen = &w->now[count++];
			if (!load(w, copies, at, o->frame_code, &code, sizeof code) ||
			    !read_frame(w, copies, at, code & ~(uint64_t)code_bits, seen))
				return -1;
			hash = mix(mix(hash, seen->code ^ seen->print), (uint64_t)seen->instruction + hash);
			seen->object = seen->type = 0;
			if (modules && modules_is_call(seen->code ^ seen->print)) {
				if (!read_module(w, copies, at, seen) || !read_call(w, copies, at, &made))
					return -1;
				/* One that is called from itself is not told apart. */
				w->entered += inner_is_new && seen->object != inner;
				inner = seen->object;
				inner_is_new = made > w->newest;
				w->made = made > w->made ? made : w->made;
				hash = mix(mix(hash, seen->object), seen->type + hash);
			}
		}
		if (!load(w, copies, at, o->frame_previous, &at, sizeof at))
			return -1;
	}
	w->entered += inner_is_new;
	w->cut = at != 0;
	*ret_hash = hash + w->cut;
	return count;
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

/* What is the calling module for the frames inside of this one? */
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
	/* The function runs: it is there, and so are its texts. */
	if (!python_describe(&w->python, seen->code, &found))
		return KNOWN_GONE;
	if (with_modules && !seen->object) {
		enum modules_learned learned = modules_learn(seen->code ^ seen->print, found.name, found.file);
		if (learned == MODULES_TOO_MANY)
			return KNOWN_FULL;
		w->learned |= learned == MODULES_CALL;
	}
	if (seen->object && seen->object != outer && outer != OUTER_UNKNOWN)
		modules_find(modules_of(w), &w->python, thread, outer, seen->object, seen->type, true, &module);
	int32_t line = python_line(&w->python, seen->code, seen->instruction);
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

/* A stack that this thread has not had before, or not for long: from the outermost frame on. */
static __attribute__((noinline)) enum known_result number_all(struct walker *w, struct sink_thread *thread,
							      uint32_t count, uint32_t *ret)
{
	uint32_t number = 0, done = 0;
	uint32_t last = w->last_count < FRAMES ? w->last_count : FRAMES;
	w->python.memory.reads_left = READS;
	uint64_t outer = w->cut ? OUTER_UNKNOWN : 0;
	/* A module may have another name in another step. */
	if (w->last_cut != w->cut || (with_modules && w->last_step != sink_step()))
		last = 0;
	w->last_step = sink_step();
	w->last_cut = w->cut;
	for (; done < count && done < last && is_same(&w->now[count - 1 - done], &w->last[last - 1 - done]); done++) {
		number = w->numbers[done];
		outer = inside(&w->now[count - 1 - done], outer);
	}
	/* Where it goes wrong in the middle nothing is left to build on. */
	w->last_count = 0;
	for (; done < count; done++) {
		const struct seen *seen = &w->now[count - 1 - done];
		enum known_result result = number_of(w, thread, seen, outer, &number);
		if (result != KNOWN_OK)
			return result;
		w->numbers[done] = number;
		outer = inside(seen, outer);
	}
	memcpy(w->last, w->now, count * sizeof *w->now);
	w->last_count = count;
	*ret = number;
	return KNOWN_OK;
}

/* Are the modules of a known stack what they were? Once a step. */
static bool are_modules_same(struct walker *w, struct sink_thread *thread, uint32_t count)
{
	const struct modules_pair *pair;
	uint64_t outer = w->cut ? OUTER_UNKNOWN : 0;
	w->python.memory.reads_left = READS;
	for (uint32_t i = count; i-- > 0; outer = inside(&w->now[i], outer)) {
		const struct seen *seen = &w->now[i];
		if (!seen->object || seen->object == outer || outer == OUTER_UNKNOWN)
			continue;
		if (!modules_find(modules_of(w), &w->python, thread, outer, seen->object, seen->type, false, &pair))
			return false;
	}
	return true;
}

/* The entry of the cache for this stack, where it can be used as it is. */
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
		if (taken >= WALKERS)
			return NULL;
		taken = atomic_fetch_add_explicit(&walker_count, 1, memory_order_relaxed);
		if (taken >= WALKERS)
			return NULL;
		w = *memory = &walkers[taken];
	}
	if (w->generation != recording) {
		memset(w->cache, 0, sizeof w->cache);
		w->last_count = 0;
		w->newest = 0;
		w->python = python;
		w->generation = recording;
	}
	return w;
}

static uint32_t lose(uint8_t kind)
{
	sink_lost(LOSS_STACKLESS, kind);
	return 0;
}

/* May the calling thread read its memory as it is? The first thread of a process, which ends the interpreter itself, and only with those
 * releases that this was tried with. */
static bool reads_directly(struct sink_thread *thread)
{
	return (python.minor == 11 || python.minor == 13 || python.minor == 14) && !drops_in_sight &&
	       sink_tid(thread) == (uint32_t)life_words->process;
}

/* The calls that this stack has for the first time are not new in the next one. */
static inline uint8_t take_entered(struct walker *w)
{
	w->newest = w->made > w->newest ? w->made : w->newest;
	return (uint8_t)(w->entered < UINT8_MAX ? w->entered : UINT8_MAX);
}

uint32_t walk_own(struct sink_thread *thread, uint8_t kind, uint8_t *ret_entered)
{
	uint64_t state = (uint64_t)(uintptr_t)this_thread(), hash;
	const uint64_t *ending =
		(const uint64_t *)(uintptr_t)(python.runtime + (uint64_t)python.offsets.runtime_finalizing);
	uint32_t number = 0;
	if (!state || __atomic_load_n(ending, __ATOMIC_RELAXED))
		return 0;
	struct walker *w = walker_of(thread);
	if (!w)
		return lose(kind);
	int saved = errno, count;
	if (reads_directly(thread)) {
		count = walk(w, false, state, &hash);
	} else {
		w->window_count = 0;
		w->python.memory.reads_left = READS;
		count = walk(w, true, state, &hash);
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
		/* Once in a process: what was read before has no modules. */
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
