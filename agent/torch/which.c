/* which.c - which optimizer's step is called? The range's name has only the class, and a loop may have two optimizers
 * of one class (a GAN's two Adams).
 *
 * The calling thread's own Python frames are read by plain loads. The frames do not change while their thread is here,
 * and they keep alive every object that is looked at. There is no call into Python, so no lock of Python is needed and
 * no object is made. There is no system call, because a filter may forbid it, and each step of each job would pay for
 * it. The guards are those of stacks/walk.c:
 *  - Nothing is read while the interpreter ends: some us after it has said so it frees the states of other threads.
 *  - Nothing is read where another thread may use this thread's state: the C frame in which its Python runs has to lie
 *    in this thread's stack. 3.9 does not have that frame: there the program has to be Python itself, and nobody may
 *    hold the GIL with this state.
 *  - In 3.11.0 and 3.11.1 the innermost frame is not looked at, because it may be one that Python has dropped.
 * Where the layout is not known (another version, a build without the global lock) the answer is 0.
 *
 * torch wraps each class's step into a function `wrapper(*args, **kwargs)`, whose first local is the tuple with the
 * optimizer in front. Its code object is recognised once, by the class's name; after that it is compared by address.
 *
 * Frames are found in different ways, depending on Python's release. The code is written once and compiled for each
 * way, because every step of a job pays for it. */
#include "../core/gate.h"
#include "../stacks/interpreter.h"
#include "internal.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* How many frames are looked at, at most: torch's own __enter__, its callers, and `wrapper` are among them. */
#define FRAMES 8
/* How many are looked at first. */
#define NEAR 4
/* How many code objects are remembered: a torch has one, unless somebody has copied it. After LOOKS searches the agent
 * gives up searching. */
#define CODES 4
#define LOOKS 64
/* How far up in its stack a thread may have begun to run Python, at most. */
#define STACK_MOST (256ull << 20)

/* PyObject, PyVarObject and PyTypeObject, the same in all releases. */
#define OBJECT_TYPE 8
#define OBJECT_SIZE 16
#define TYPE_NAME 24
#define CODE_VARARGS 4
/* _PyInterpreterFrame.owner of a frame that C has made between two Python frames; 3.14 has one more value, for a
 * thread's first frame. */
#define OWNED_BY_C 3

enum way {
	WAY_NONE,
	WAY_LOCK,	/* 3.9: the state leads to the frame */
	WAY_BESIDE,	/* 3.10: the state also leads to the C frame */
	WAY_C_FRAME,	/* 3.11 and 3.12: the state leads to the C frame, and that to the frame */
	WAY_DROPPED,	/* 3.11.0 and 3.11.1 */
	WAY_MARKS,	/* 3.13: the state leads to the frame; some frames are made by C */
	WAY_REFERENCES, /* 3.14: the same, and references have mark bits */
};

static struct layout {
	uint32_t c_frame, state_frame, current; /* of PyThreadState, of its C frame */
	uint32_t ident, previous, code, instruction, owner, locals, flags, items;
	const char *ending;    /* of _PyRuntime: not 0 while the interpreter ends */
	const char *gil;       /* of _PyRuntime */
	uint32_t holder, held; /* from there */
} layout;

static uint64_t by_nothing(const char *class, size_t bytes)
{
	(void)class;
	(void)bytes;
	return 0;
}

uint64_t (*torch_which)(const char *class, size_t bytes) = by_nothing;
static enum way own_way; /* written before torch_which */
static void *(*this_thread)(void);
static const void *type_of_code, *type_of_tuple;
static _Atomic uintptr_t codes[CODES];
static _Atomic uint32_t looks;

/* ---------------------------------------------------------------- objects */

/* The object of a word, without the mark bits that the word may have; NULL: it refers to none. */
static inline __attribute__((always_inline)) const char *object_of(enum way way, uintptr_t word)
{
	if (way == WAY_REFERENCES)
		word = word % 4 == 3 ? 0 : word - word % 4;
	return (const char *)word;
}

/* The optimizer: the first item of the tuple that is the frame's first local. 0: that is no tuple, or an empty one. */
static inline __attribute__((always_inline)) uint64_t first_of(enum way way, const char *frame)
{
	const char *object = object_of(way, TORCH_AT(uintptr_t, frame, layout.locals));
	if (!object || TORCH_AT(const void *, object, OBJECT_TYPE) != type_of_tuple ||
	    TORCH_AT(int64_t, object, OBJECT_SIZE) <= 0)
		return 0;
	return TORCH_AT(uint64_t, object, layout.items);
}

/* The optimizer, if this is the frame of `wrapper`; 0: it is another function's. */
static inline __attribute__((always_inline)) uint64_t optimizer_in(enum way way, const char *frame, uintptr_t word,
								   const char *class, size_t bytes)
{
	const char *code = object_of(way, word);
	if (!code || TORCH_AT(const void *, code, OBJECT_TYPE) != type_of_code ||
	    !(TORCH_AT(int32_t, code, layout.flags) & CODE_VARARGS))
		return 0;
	const char *self = (const char *)(uintptr_t)first_of(way, frame);
	if (!self)
		return 0;
	const char *type = TORCH_AT(const char *, self, OBJECT_TYPE);
	const char *name = TORCH_AT(const char *, type, TYPE_NAME);
	return strncmp(name, class, bytes) == 0 && !name[bytes] ? (uint64_t)(uintptr_t)self : 0;
}

static int is_known(uintptr_t code)
{
	for (uint32_t i = 0; i < CODES; i++) {
		uintptr_t known = atomic_load_explicit(&codes[i], memory_order_relaxed);
		if (known == code)
			return 1;
		if (!known)
			break;
	}
	return 0;
}

static void learn(uintptr_t code)
{
	for (uint32_t slot = 0; slot < CODES; slot++) {
		uintptr_t nothing = 0;
		if (atomic_compare_exchange_strong_explicit(&codes[slot], &nothing, code, memory_order_relaxed,
							    memory_order_relaxed))
			return;
	}
}

/* ---------------------------------------------------------------- frames */

/* Does `at` lie in the calling thread's stack, above this frame? */
static inline __attribute__((always_inline)) int is_in_own_stack(const char *at)
{
	return (uintptr_t)at - (uintptr_t)__builtin_frame_address(0) < STACK_MOST;
}

static inline __attribute__((always_inline)) int has_marks(enum way way)
{
	return way == WAY_MARKS || way == WAY_REFERENCES;
}

/* Is this a frame that C has made? 0: no; 1: yes, in this thread; -1: yes, in another thread. */
static inline __attribute__((always_inline)) int mark(enum way way, const char *frame)
{
	/* 3.12 has them, too. There the C frame has shown that this Python runs in this thread. */
	if (way == WAY_LOCK || way == WAY_BESIDE || TORCH_AT(uint8_t, frame, layout.owner) < OWNED_BY_C)
		return 0;
	return !has_marks(way) || is_in_own_stack(frame) ? 1 : -1;
}

static inline __attribute__((always_inline)) const char *previous_of(const char *frame)
{
	return TORCH_AT(const char *, frame, layout.previous);
}

/* Is the GIL free, or held with another state? torch releases the GIL before it calls us. */
static int is_let_go(const char *state)
{
	return !TORCH_AT(int32_t, layout.gil, layout.held) ||
	       TORCH_AT(const char *, layout.gil, layout.holder) != state;
}

/* The innermost frame that may be looked at; NULL: there is none. */
static inline __attribute__((always_inline)) const char *innermost(enum way way)
{
	const char *state = this_thread(), *c_frame;
	if (!state || __atomic_load_n((const uintptr_t *)(const void *)layout.ending, __ATOMIC_RELAXED))
		return NULL;
	if (way != WAY_C_FRAME && way != WAY_DROPPED &&
	    TORCH_AT(uintptr_t, state, layout.ident) != (uintptr_t)pthread_self())
		return NULL;
	if (way == WAY_LOCK && !is_let_go(state))
		return NULL;
	if (way == WAY_LOCK || has_marks(way))
		return TORCH_AT(const char *, state, layout.state_frame);
	c_frame = TORCH_AT(const char *, state, layout.c_frame);
	if (!is_in_own_stack(c_frame))
		return NULL;
	if (way == WAY_BESIDE)
		return TORCH_AT(const char *, state, layout.state_frame);
	const char *frame = TORCH_AT(const char *, c_frame, layout.current);
	return way == WAY_DROPPED && frame ? previous_of(frame) : frame;
}

/* Looks only at the code of the first frames: one of them is mostly the code that was recognised first. Frames that C
 * has made also have a word there. */
static inline __attribute__((always_inline)) uint64_t usual(enum way way, const char *frame)
{
	uintptr_t wanted = atomic_load_explicit(&codes[0], memory_order_relaxed);
	uint32_t code = layout.code, previous = layout.previous;
	for (uint32_t n = 0; wanted && frame && n < NEAR; n++, frame = TORCH_AT(const char *, frame, previous)) {
		if (has_marks(way) && mark(way, frame) < 0)
			return 0;
		if (TORCH_AT(uintptr_t, frame, code) == wanted)
			return first_of(way, frame);
	}
	return 0;
}

/* Looks at all frames for known code, and if there is none searches them for `wrapper`. */
static inline __attribute__((always_inline)) uint64_t look_for(enum way way, const char *frame, const char *class,
							       size_t bytes)
{
	const char *frames[FRAMES];
	uint32_t n = 0;
	for (uint32_t looked = 0; frame && n < FRAMES && looked < 4 * FRAMES; looked++, frame = previous_of(frame)) {
		int made_by_c = mark(way, frame);
		if (made_by_c < 0)
			return 0;
		if (made_by_c)
			continue;
		if (is_known(TORCH_AT(uintptr_t, frame, layout.code)))
			return first_of(way, frame);
		frames[n++] = frame;
	}
	if (atomic_load_explicit(&looks, memory_order_relaxed) >= LOOKS)
		return 0;
	atomic_fetch_add_explicit(&looks, 1, memory_order_relaxed);
	for (uint32_t i = 0; i < n; i++) {
		uintptr_t code = TORCH_AT(uintptr_t, frames[i], layout.code);
		uint64_t who = optimizer_in(way, frames[i], code, class, bytes);
		if (!who)
			continue;
		learn(code);
		return who;
	}
	return 0;
}

#define DEFINE_WAY(name, way)                                                                                          \
	static __attribute__((noinline)) uint64_t look_for_##name(const char *frame, const char *class, size_t bytes)  \
	{                                                                                                              \
		return look_for(way, frame, class, bytes);                                                             \
	}                                                                                                              \
	static uint64_t by_##name(const char *class, size_t bytes)                                                     \
	{                                                                                                              \
		const char *frame = innermost(way);                                                                    \
		uint64_t who = usual(way, frame);                                                                      \
		return who ? who : look_for_##name(frame, class, bytes);                                               \
	}
DEFINE_WAY(lock, WAY_LOCK)
DEFINE_WAY(beside, WAY_BESIDE)
DEFINE_WAY(c_frame, WAY_C_FRAME)
DEFINE_WAY(dropped, WAY_DROPPED)
DEFINE_WAY(marks, WAY_MARKS)
DEFINE_WAY(references, WAY_REFERENCES)

uint32_t torch_frames(struct torch_frame *frames, uint32_t room)
{
	enum way way = own_way;
	const char *frame = way == WAY_NONE ? NULL : innermost(way);
	uint32_t n = 0;
	for (uint32_t looked = 0; frame && n < room && looked < 4 * room; looked++, frame = previous_of(frame)) {
		int made_by_c = mark(way, frame);
		if (made_by_c < 0)
			break;
		if (made_by_c)
			continue;
		const char *code = object_of(way, TORCH_AT(uintptr_t, frame, layout.code));
		const char *first = object_of(way, TORCH_AT(uintptr_t, frame, layout.locals));
		uint64_t instruction = TORCH_AT(uint64_t, frame, layout.instruction);
		if (way == WAY_LOCK || way == WAY_BESIDE)
			instruction = (uint32_t)instruction;
		frames[n++] = (struct torch_frame){(uint64_t)(uintptr_t)code, (uint64_t)(uintptr_t)first, instruction};
	}
	return n;
}

bool torch_knows_frames(void)
{
	return own_way != WAY_NONE;
}

/* ---------------------------------------------------------------- which release */

static enum way way_of(const struct python *python)
{
	const unsigned long *version = dlsym(RTLD_DEFAULT, "Py_Version");
	switch (python->minor) {
	case 9:
		return interpreter_is_program() ? WAY_LOCK : WAY_NONE;
	case 10:
		return WAY_BESIDE;
	case 11:
		return version && (*version >> 8 & 0xff) < 2 ? WAY_DROPPED : WAY_C_FRAME;
	case 12:
		return WAY_C_FRAME;
	case 13:
		return WAY_MARKS;
	case 14:
		return WAY_REFERENCES;
	default:
		return WAY_NONE;
	}
}

static void take(const struct python *python)
{
	const struct python_offsets *o = &python->offsets;
	const char *runtime = (const char *)(uintptr_t)python->runtime;
	layout = (struct layout){
		.c_frame = (uint32_t)(o->thread_cframe >= 0 ? o->thread_cframe : o->thread_frame),
		.state_frame = (uint32_t)o->thread_frame,
		.current = (uint32_t)o->cframe_current,
		.ident = (uint32_t)o->thread_ident,
		.previous = (uint32_t)o->frame_previous,
		.code = (uint32_t)o->frame_code,
		.instruction = (uint32_t)o->frame_instruction,
		.owner = (uint32_t)o->frame_owner,
		.locals = (uint32_t)o->frame_locals,
		.flags = (uint32_t)o->code_flags,
		.items = (uint32_t)o->tuple_items,
		.ending = runtime + o->runtime_finalizing,
		.gil = runtime,
		.holder = (uint32_t)o->gil_holder,
		.held = (uint32_t)o->gil_locked,
	};
}

void torch_which_init(void)
{
	static uint64_t (*const ways[])(const char *, size_t) = {
		[WAY_NONE] = by_nothing,	  [WAY_LOCK] = by_lock,	      [WAY_BESIDE] = by_beside,
		[WAY_C_FRAME] = by_c_frame,	  [WAY_DROPPED] = by_dropped, [WAY_MARKS] = by_marks,
		[WAY_REFERENCES] = by_references,
	};
	struct python python;
	if (torch_which != by_nothing || !interpreter_layout(&python))
		return;
	*(void **)&this_thread = dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState");
	type_of_code = dlsym(RTLD_DEFAULT, "PyCode_Type");
	type_of_tuple = dlsym(RTLD_DEFAULT, "PyTuple_Type");
	if (!this_thread || !type_of_code || !type_of_tuple)
		return;
	take(&python);
	own_way = way_of(&python);
	torch_which = ways[own_way];
}
