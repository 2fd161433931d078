/* which.c - which object's step is called? A range is named by the class alone, and a loop may have two optimizers of one
 * class (a GAN's two Adams).
 *
 * The calling thread's own Python frames are read, by loads alone: they stand still while their thread is here, and
 * everything that is looked at is held by them. No call into Python, so that it needs no lock of it and makes no object.
 * Where the layout is not known (another version, a build without the global lock) the answer is 0.
 *
 * torch wraps each class's step into a function `wrapper(*args, **kwargs)`, whose first local is the tuple with the optimizer
 * in front. Its code object is recognised once, by the class's name; after that it is compared by address. */
#include "internal.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

/* Frames above the call, at most: torch's own __enter__, and what calls it. */
#define FRAMES 8
/* Code objects that are recognised: one a version of torch, unless somebody has copied it. Looks in vain end as well. */
#define CODES 4
#define LOOKS 64

/* PyObject, PyVarObject, PyTypeObject, PyTupleObject and PyCodeObject, the same from 3.11 to 3.13. */
#define OBJECT_TYPE 8
#define OBJECT_SIZE 16
#define TYPE_NAME 24
#define TUPLE_ITEMS 24
#define CODE_FLAGS 48
#define CODE_VARARGS 4
/* _PyInterpreterFrame.owner of a frame that C made between two of Python's. */
#define OWNED_BY_C 3

static struct layout {
	uint32_t known;
	uint32_t has_c_frame, c_frame, current; /* of PyThreadState: the frame itself, or by way of its C frame */
	uint32_t previous, code, owner, locals; /* of _PyInterpreterFrame */
} layout;

static void *(*this_thread)(void);
static const void *type_of_code, *type_of_tuple;
static _Atomic uintptr_t codes[CODES];
static _Atomic uint32_t looks;

/* From 3.13 on `_PyRuntime` begins with a description of what lies where: a mark, the version, whether it is built without
 * the global lock, then groups of words: runtime 3, interpreter 13, thread 9, frame 6. */
static int described(struct layout *to)
{
	const uint64_t *words = dlsym(RTLD_DEFAULT, "_PyRuntime");
	if (!words || memcmp(words, "xdebugpy", 8) != 0 || words[2])
		return 0;
	const uint64_t *thread = words + 3 + 3 + 13, *frame = thread + 9;
	for (int i = 0; i < 9 + 6; i++)
		if (thread[i] > 4096)
			return 0;
	to->current = (uint32_t)thread[4];
	to->previous = (uint32_t)frame[1];
	to->code = (uint32_t)frame[2];
	to->locals = (uint32_t)frame[4];
	to->owner = (uint32_t)frame[5];
	return 1;
}

void torch_which_init(void)
{
	const unsigned long *version = dlsym(RTLD_DEFAULT, "Py_Version");
	struct layout found = {0};
	*(void **)&this_thread = dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState");
	type_of_code = dlsym(RTLD_DEFAULT, "PyCode_Type");
	type_of_tuple = dlsym(RTLD_DEFAULT, "PyTuple_Type");
	if (layout.known || !version || !this_thread || !type_of_code || !type_of_tuple)
		return;
	switch (*version >> 16) {
	case 0x030b:
		found = (struct layout){1, 1, 56, 8, 48, 32, 69, 72};
		break;
	case 0x030c:
		found = (struct layout){1, 1, 56, 0, 8, 0, 70, 72};
		break;
	case 0x030d:
		found.known = (uint32_t)described(&found);
		break;
	default:
		break;
	}
	layout = found;
}

/* With something in it. */
static int is_tuple(const char *object)
{
	return object && TORCH_AT(const void *, object, OBJECT_TYPE) == type_of_tuple &&
	       TORCH_AT(int64_t, object, OBJECT_SIZE) > 0;
}

/* The optimizer in the frame of `wrapper`, 0 where this is another function's. */
static uint64_t optimizer_in(const char *frame, const char *code, const char *class, size_t bytes)
{
	const char *arguments = TORCH_AT(const char *, frame, layout.locals);
	if (TORCH_AT(const void *, code, OBJECT_TYPE) != type_of_code ||
	    !(TORCH_AT(int32_t, code, CODE_FLAGS) & CODE_VARARGS) || !is_tuple(arguments))
		return 0;
	const char *self = TORCH_AT(const char *, arguments, TUPLE_ITEMS);
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

static uint64_t recognise(const char *const *frames, uint32_t n, const char *class, size_t bytes)
{
	if (atomic_load_explicit(&looks, memory_order_relaxed) >= LOOKS)
		return 0;
	atomic_fetch_add_explicit(&looks, 1, memory_order_relaxed);
	for (uint32_t i = 0; i < n; i++) {
		const char *code = TORCH_AT(const char *, frames[i], layout.code);
		uint64_t who = optimizer_in(frames[i], code, class, bytes);
		if (!who)
			continue;
		for (uint32_t slot = 0; slot < CODES; slot++) {
			uintptr_t nothing = 0;
			if (atomic_compare_exchange_strong_explicit(&codes[slot], &nothing, (uintptr_t)code,
								    memory_order_relaxed, memory_order_relaxed))
				break;
		}
		return who;
	}
	return 0;
}

/* The first frames, with no more than a look at their code: mostly it is the one that was recognised first. Frames that C made
 * have a word there, too. */
static inline uint64_t usual(const char *frame)
{
	enum { NEAR = 4 };
	uintptr_t wanted = atomic_load_explicit(&codes[0], memory_order_relaxed);
	uint32_t code = layout.code, previous = layout.previous;
	for (uint32_t n = 0; frame && n < NEAR; n++, frame = TORCH_AT(const char *, frame, previous))
		if (TORCH_AT(uintptr_t, frame, code) == wanted && wanted) {
			const char *arguments = TORCH_AT(const char *, frame, layout.locals);
			return is_tuple(arguments) ? TORCH_AT(uint64_t, arguments, TUPLE_ITEMS) : 0;
		}
	return 0;
}

static __attribute__((noinline)) uint64_t look_for(const char *frame, const char *class, size_t bytes)
{
	const char *frames[FRAMES];
	uint32_t n = 0;
	for (uint32_t looked = 0; frame && n < FRAMES && looked < 4 * FRAMES;
	     looked++, frame = TORCH_AT(const char *, frame, layout.previous)) {
		if (TORCH_AT(uint8_t, frame, layout.owner) == OWNED_BY_C)
			continue;
		const char *code = TORCH_AT(const char *, frame, layout.code);
		if (is_known((uintptr_t)code)) {
			const char *arguments = TORCH_AT(const char *, frame, layout.locals);
			return is_tuple(arguments) ? TORCH_AT(uint64_t, arguments, TUPLE_ITEMS) : 0;
		}
		frames[n++] = frame;
	}
	return recognise(frames, n, class, bytes);
}

uint64_t torch_which(const char *class, size_t bytes)
{
	if (!layout.known)
		return 0;
	const char *state = this_thread();
	if (state && layout.has_c_frame)
		state = TORCH_AT(const char *, state, layout.c_frame);
	if (!state)
		return 0;
	const char *frame = TORCH_AT(const char *, state, layout.current);
	uint64_t who = usual(frame);
	return who ? who : look_for(frame, class, bytes);
}
