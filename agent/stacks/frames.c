/* frames.c - see frames.h. */
#include "frames.h"
#include "interpreter.h"
#include "modules.h"

#include "../core/peek.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* How far up in its stack a thread may have begun to run Python. */
#define STACK_MOST (256ull << 20)
#define OWNED_BY_C 3
/* How many copies of memory may be made for one stack. */
#define READS 65536
/* Offset of the keywords in the frame of a module's call, after the module and the other arguments; and offset of a
 * dict's version, in releases that have it. */
#define FRAME_KEYWORDS 16
#define DICT_VERSION 24

struct python frames_python;
static bool with_modules;
/* Before 3.11.2 a frame that Python is about to drop can be seen, with objects that are already freed. */
static bool drops_in_sight;
/* In 3.9 a thread's state has no address in the thread's stack. So we cannot see whether a program uses the state on
 * another thread. Python's own program does not. */
static bool is_unproved;
static bool counts_calls;

void frames_know(const struct python *python)
{
	if (!frames_python.minor)
		frames_python = *python;
}

void frames_arm(bool modules)
{
	const unsigned long *version = interpreter_symbol("Py_Version");
	with_modules = modules;
	counts_calls = frames_python.minor <= 13;
	drops_in_sight = frames_python.minor == 11 && (!version || (*version >> 8 & 0xff) < 2);
	is_unproved = frames_python.minor == 9 && !interpreter_is_program();
}

/* Is the GIL held with this state? Operators mostly have released it. */
static bool has_gil(uint64_t state)
{
	const struct python_offsets *o = &frames_python.offsets;
	const char *gil = (const char *)(uintptr_t)frames_python.runtime;
	return __atomic_load_n((const int32_t *)(const void *)(gil + o->gil_locked), __ATOMIC_RELAXED) == 1 &&
	       __atomic_load_n((const uint64_t *)(const void *)(gil + o->gil_holder), __ATOMIC_RELAXED) == state;
}

bool frames_lie_still(uint64_t state)
{
	return !drops_in_sight && !is_unproved && (frames_python.minor != 9 || !has_gil(state));
}

/* A page that was not used for this many stacks is not copied any more. */
#define IDLE_MOST 4

static uint8_t *window_guess(struct frames *f, uint64_t page)
{
	return &f->window_at[page / FRAMES_PAGE % (sizeof f->window_at / sizeof *f->window_at)];
}

/* Copies all pages that were used lately, by one system call. If a page is no longer mapped, the call ends there: that
 * page and those after it are left out. */
static void copy_windows(struct frames *f)
{
	uint32_t kept = 0, count = f->window_count;
	for (uint32_t i = 0; i < count; i++) {
		if (f->window_idle[i] >= IDLE_MOST)
			continue;
		f->window_pages[kept] = f->window_pages[i];
		f->window_idle[kept] = (uint8_t)(f->window_idle[i] + 1);
		*window_guess(f, f->window_pages[kept]) = (uint8_t)kept;
		kept++;
	}
	f->window_count = peek_pieces(f->window_pages, f->windows[0], FRAMES_PAGE, kept);
}

/* The bytes of this page; NULL: it cannot be read. */
static const unsigned char *window_of(struct frames *f, uint64_t page)
{
	uint8_t *guess = window_guess(f, page);
	uint32_t i = *guess, count = f->window_count;
	if (i >= count || f->window_pages[i] != page)
		for (i = 0; i < count && f->window_pages[i] != page;)
			i++;
	if (i == count) {
		/* If there are more pages than fit, the last one makes room. */
		i = count < FRAMES_WINDOWS ? count : FRAMES_WINDOWS - 1;
		f->window_count = i;
		if (!python_read(&f->python.memory, page, f->windows[i], FRAMES_PAGE))
			return NULL;
		f->window_pages[i] = page;
		f->window_count = i + 1;
	}
	f->window_idle[i] = 0;
	*guess = (uint8_t)i;
	return f->windows[i];
}

static bool read_by_pages(struct frames *f, uint64_t at, void *to, size_t bytes)
{
	uint64_t page = at / FRAMES_PAGE * FRAMES_PAGE;
	const unsigned char *from = at - page + bytes > FRAMES_PAGE ? NULL : window_of(f, page);
	if (from)
		memcpy(to, from + (at - page), bytes);
	return from != NULL;
}

static inline __attribute__((always_inline)) bool load(struct frames *f, bool copies, uint64_t at, int32_t offset,
						       void *to, size_t bytes)
{
	at += (uint64_t)offset;
	if (copies)
		return read_by_pages(f, at, to, bytes);
	memcpy(to, (const void *)(uintptr_t)at, bytes);
	return true;
}

static inline bool is_pointer(uint64_t at)
{
	return at >= FRAMES_PAGE && at % sizeof(void *) == 0;
}

/* Does `at` lie in the calling thread's stack, above this frame? */
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

static inline __attribute__((always_inline)) bool read_code(struct frames *f, bool copies, uint64_t code,
							    uint64_t *print)
{
	const struct python_offsets *o = &frames_python.offsets;
	uint64_t name, file, table;
	uint32_t line;
	if (!is_pointer(code) || !load(f, copies, code, o->code_name, &name, sizeof name) ||
	    !load(f, copies, code, o->code_file, &file, sizeof file) ||
	    !load(f, copies, code, o->code_table, &table, sizeof table) ||
	    !load(f, copies, code, o->code_line, &line, sizeof line))
		return false;
	*print = mix(name + line, file ^ (table << 20 | table >> 44));
	return true;
}

static inline __attribute__((always_inline)) bool read_frame(struct frames *f, bool copies, uint64_t at, uint64_t code,
							     struct seen *to)
{
	const struct python_offsets *o = &frames_python.offsets;
	int64_t instruction;
	int32_t last;
	if (o->code_start >= 0) {
		if (!load(f, copies, at, o->frame_instruction, &instruction, sizeof instruction))
			return false;
		instruction -= (int64_t)(code + (uint64_t)o->code_start);
	} else {
		if (!load(f, copies, at, o->frame_instruction, &last, sizeof last))
			return false;
		instruction = frames_python.minor >= 10 ? (int64_t)last * 2 : last;
	}
	to->code = code;
	to->instruction = instruction;
	return read_code(f, copies, code, &to->print);
}

/* Sets *at to the innermost frame; 0: no function runs. False where the state does not belong to this thread's
 * Python. */
static inline __attribute__((always_inline)) bool innermost(struct frames *f, bool copies, uint64_t state, uint64_t *at)
{
	const struct python_offsets *o = &frames_python.offsets;
	uint64_t ident;
	if (!load(f, copies, state, o->thread_ident, &ident, sizeof ident) ||
	    ident != (uint64_t)(uintptr_t)pthread_self() || !load(f, copies, state, o->thread_frame, at, sizeof *at))
		return false;
	uint64_t frame;
	if (o->thread_cframe >= 0 && *at)
		return load(f, copies, state, o->thread_cframe, &frame, sizeof frame) && is_in_own_stack(frame);
	if (o->cframe_current < 0 || !*at)
		return true;
	if (!is_pointer(*at) || !load(f, copies, *at, o->cframe_current, &frame, sizeof frame))
		return false;
	/* Where no function runs the C frame is one inside the state. */
	if (frame && !is_in_own_stack(*at))
		return false;
	*at = frame;
	return true;
}

/* Reads the module's object from the frame of its call. */
static inline __attribute__((always_inline)) bool read_module(struct frames *f, bool copies, uint64_t at,
							      struct seen *to)
{
	if (!load(f, copies, at, frames_python.offsets.frame_locals, &to->object, sizeof to->object))
		return false;
	/* From 3.14 on references have mark bits: 3 means a number, not an object. */
	if (frames_python.minor >= 14 && to->object % 4 != 3)
		to->object -= to->object % 4;
	return is_pointer(to->object) && load(f, copies, to->object, PYTHON_OBJECT_TYPE, &to->type, sizeof to->type);
}

/* Python counts each new dict and each change of a dict, and stores the count in the dict. The function that calls a
 * module takes keywords: their dict is made with the frame, and nobody changes it. So this count identifies the call;
 * 0: there is none. */
static inline __attribute__((always_inline)) bool read_call(struct frames *f, bool copies, uint64_t at, uint64_t *made)
{
	uint64_t keywords;
	*made = 0;
	if (!counts_calls)
		return true;
	return load(f, copies, at, frames_python.offsets.frame_locals + FRAME_KEYWORDS, &keywords, sizeof keywords) &&
	       is_pointer(keywords) && load(f, copies, keywords, DICT_VERSION, made, sizeof *made);
}

static inline __attribute__((always_inline)) int read_all(struct frames *f, bool copies, uint64_t state,
							  uint64_t *ret_hash)
{
	const struct python_offsets *o = &frames_python.offsets;
	bool marked = frames_python.minor >= 12 && o->frame_owner >= 0, own = false;
	uint32_t code_bits = frames_python.minor >= 14 ? 3 : 0;
	uint64_t at, hash = 0;
	bool modules = with_modules, inner_is_new = false;
	uint64_t inner = 0, made;
	f->made = f->entered = 0;
	int count = 0;
	if (!innermost(f, copies, state, &at))
		return -1;
	for (int i = 0; at && count < FRAMES && i < 2 * FRAMES; i++) {
		uint8_t owner = 0;
		uint64_t code;
		if (!is_pointer(at) || (marked && !load(f, copies, at, o->frame_owner, &owner, sizeof owner)))
			return -1;
		if (marked && owner >= OWNED_BY_C) {
			if (!own && !is_in_own_stack(at))
				return -1;
			own = true;
		} else {
			struct seen *seen = &f->now[count++];
			if (!load(f, copies, at, o->frame_code, &code, sizeof code) ||
			    !read_frame(f, copies, at, code & ~(uint64_t)code_bits, seen))
				return -1;
			hash = mix(mix(hash, seen->code ^ seen->print), (uint64_t)seen->instruction + hash);
			seen->object = seen->type = 0;
			if (modules && modules_is_call(seen->code ^ seen->print)) {
				if (!read_module(f, copies, at, seen) || !read_call(f, copies, at, &made))
					return -1;
				/* A module that calls itself counts as one call. */
				f->entered += inner_is_new && seen->object != inner;
				inner = seen->object;
				inner_is_new = made > f->newest;
				f->made = made > f->made ? made : f->made;
				hash = mix(mix(hash, seen->object), seen->type + hash);
			}
		}
		if (!load(f, copies, at, o->frame_previous, &at, sizeof at))
			return -1;
	}
	f->entered += inner_is_new;
	f->cut = at != 0;
	*ret_hash = hash + f->cut;
	return count;
}

int frames_directly(struct frames *f, uint64_t state, uint64_t *ret_hash)
{
	return read_all(f, false, state, ret_hash);
}

int frames_by_copies(struct frames *f, uint64_t state, uint64_t *ret_hash)
{
	f->python.memory.reads_left = READS;
	copy_windows(f);
	return read_all(f, true, state, ret_hash);
}
