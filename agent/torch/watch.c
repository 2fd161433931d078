/* watch.c - steps: one global RecordFunction callback for user scopes, in any thread of the job, for the life of the
 * process. Only this callback tells the step counter about optimizers and loaders. So each end of an Optimizer.step is
 * told once, also if a recording is switched on or off while it runs.
 *
 * A step ends where Optimizer.step ends, and the step's end must not cut the range of that Optimizer.step. So during a
 * recording that range is closed before the tick. torch may run the ends of several callbacks in any order, so both
 * callbacks can close it: the range's frame is found by the address of its at::RecordFunction, which no other open
 * range can have. */
#include "../core/gate.h"
#include "../core/life.h"
#include "../steps/counter.h"
#include "../steps/steps.h"
#include "../steps/usual.h"
#include "../stacks/caller.h"
#include "internal.h"
#include "torch.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

static const char optimizer_prefix[] = "Optimizer.step#";
static const char optimizer_suffix[] = ".step";
static const char zero_prefix[] = "Optimizer.zero_grad#";
static const char profiler_prefix[] = "ProfilerStep#";
static const char loader_prefix[] = "enumerate(DataLoader)#";
static const char loader_suffix[] = "__next__";

/* How many steps of torch.profilers are open. A profiler with a schedule opens them from its start to its stop, also
 * while it waits. */
static atomic_int profiler_steps;
/* When the last of them ended, and after which step. The same call opens the next one a moment later. */
static _Atomic uint64_t profiler_step_end, profiler_step_at;
/* That moment may take this long if the thread gets no processor. */
#define BETWEEN_NS 1000000000ull
/* Was torch's own profiler on in the step thread? In older releases its state can be read only there. */
static atomic_uchar profiled;

int torch_profiled(void)
{
	if (torch_find() == 1 && torch_symbols.profiler_anywhere) {
		unsigned place = gate_enter(GATE_OWN_NS);
		int on = torch_symbols.profiler_anywhere();
		gate_leave(place);
		if (on)
			return 1;
	}
	return atomic_load_explicit(&profiled, memory_order_relaxed);
}

int torch_profiler_waits(void)
{
	uint64_t end = atomic_load_explicit(&profiler_step_end, memory_order_relaxed);
	bool between = end && sink_now() < end + BETWEEN_NS &&
		       atomic_load_explicit(&profiler_step_at, memory_order_relaxed) == steps_count();
	return (atomic_load_explicit(&profiler_steps, memory_order_relaxed) > 0 || between) && !torch_profiled();
}

static void destroy_nothing(void *context)
{
	(void)context;
}

/* torch uses these as at::ObserverContext: the first word leads to the {complete, deleting} destructors. */
static void (*const static_vtable[2])(void *) = {destroy_nothing, destroy_nothing};
static const struct {
	const void *vtable;
} optimizer_context = {static_vtable}, known_context = {static_vtable}, profiler_context = {static_vtable},
  loader_context = {static_vtable};

/* The class's name in `Optimizer.step#AdamW.step`. */
static const char *class_of(const char *name, size_t *ret_bytes)
{
	const char *class = name + sizeof optimizer_prefix - 1;
	size_t bytes = strlen(class), suffix = sizeof optimizer_suffix - 1;
	if (bytes > suffix && !memcmp(class + bytes - suffix, optimizer_suffix, suffix))
		bytes -= suffix;
	*ret_bytes = bytes;
	return class;
}

/* Names are compared by aligned words; the text of a std::string is aligned. An aligned word lies in one page, so the
 * whole word can be read if its first byte can. The next word is read only if this one was as expected, and so had no
 * NUL. */
#define WORD sizeof(uint64_t)

static inline int has_words(const char *name)
{
	return (uintptr_t)name % WORD == 0;
}

static inline __attribute__((no_sanitize("address"))) uint64_t word_at(const char *name)
{
	uint64_t word;
	memcpy(&word, __builtin_assume_aligned(name, WORD), sizeof word);
	return word;
}

/* The thread's entry keeps the name of its last Optimizer.step, so that it is taken apart only once. It is compared as
 * a text, because torch makes a new string each time. */
static __attribute__((noinline)) void remember_step(struct nest_entry *e, const char *name, size_t class_bytes)
{
	size_t bytes = strlen(name) + 1;
	memset(e->step_name, 0, sizeof e->step_name);
	e->class_bytes = 0;
	if (bytes > NEST_NAME_BYTES)
		return;
	memcpy(e->step_name, name, bytes);
	e->name_last = (bytes - 1) / WORD * WORD;
	e->name_mask = 0;
	memset(&e->name_mask, 0xff, bytes - e->name_last);
	e->class_bytes = (uint32_t)class_bytes;
}

/* Is it the remembered name? The first word is known to be that of the prefix. A remembered name has more than two
 * words, because the prefix and the suffix alone are longer. If none is remembered its second word is 0, which no name
 * has. */
static inline int is_remembered(const struct nest_entry *e, const char *name)
{
	uint64_t second = word_at(name + WORD), last = e->name_last;
	if (second != word_at(e->step_name + WORD) || !second)
		return 0;
	for (uint64_t at = 2 * WORD; at < last; at += WORD)
		if (word_at(name + at) != word_at(e->step_name + at))
			return 0;
	return ((word_at(name + last) ^ word_at(e->step_name + last)) & e->name_mask) == 0;
}

/* Autograd's number of the next node in this thread. */
static uint64_t sequence(void)
{
	return torch_symbols.sequence_peek ? (uint64_t)torch_symbols.sequence_peek() : 0;
}

static void batch_begins(void)
{
	struct steps_pass pass;
	bool wanted = steps_wants_passes();
	uint64_t now = sink_stamp();
	if (wanted)
		torch_pass(&pass);
	steps_batch_begin(now, sequence(), torch_symbols.sequence_peek != NULL, wanted ? &pass : NULL);
}

/* All user ranges except an Optimizer.step with the remembered name. */
static __attribute__((noinline)) void *watch_other(const char *name)
{
	if (name[0] == 'O' && !strncmp(name, optimizer_prefix, sizeof optimizer_prefix - 1)) {
		size_t bytes;
		const char *class = class_of(name, &bytes);
		if (steps_optimizer_begin(class, bytes) && nest_own)
			remember_step(nest_own, name, bytes);
		return (void *)(uintptr_t)&optimizer_context;
	}
	if (name[0] == 'O' && !strncmp(name, zero_prefix, sizeof zero_prefix - 1)) {
		steps_zero_grad(sequence(), torch_symbols.sequence_peek != NULL);
	} else if (name[0] == 'P' && !strncmp(name, profiler_prefix, sizeof profiler_prefix - 1)) {
		atomic_fetch_add_explicit(&profiler_steps, 1, memory_order_relaxed);
		return (void *)(uintptr_t)&profiler_context;
	} else if (name[0] == 'e' && !strncmp(name, loader_prefix, sizeof loader_prefix - 1)) {
		size_t bytes = strlen(name), suffix = sizeof loader_suffix - 1;
		if (bytes >= suffix && !memcmp(name + bytes - suffix, loader_suffix, suffix)) {
			steps_loader_next();
			batch_begins();
			return (void *)(uintptr_t)&loader_context;
		}
	}
	return NULL;
}

static __attribute__((noinline)) void watch_other_start(void **to, const char *name)
{
	if (name[0] == 'O' || name[0] == 'P' || name[0] == 'e')
		*to = watch_other(name);
}

static void *watch_start(void **to, const void *function)
{
	const char *name = torch_symbols.name(function);
	struct nest_entry *e = nest_own;
	*to = NULL;
	if (!has_words(name) || word_at(name) != word_at(zero_prefix) || !e) {
		watch_other_start(to, name);
	} else if (word_at(name + WORD) == word_at(zero_prefix + WORD)) {
		if (memcmp(name + 2 * WORD, zero_prefix + 2 * WORD, 4) != 0 ||
		    !steps_usual_zero(e, torch_symbols.sequence_peek))
			watch_other_start(to, name);
	} else if (is_remembered(e, name)) {
		if (!steps_usual_begin(e))
			steps_optimizer_begin(e->step_name + sizeof optimizer_prefix - 1, e->class_bytes);
		*to = (void *)(uintptr_t)&known_context;
	} else {
		watch_other_start(to, name);
	}
	return to;
}

/* Closes the range of an Optimizer.step during a recording. */
static __attribute__((noinline)) void close_step_range(const void *function, uint64_t now)
{
	int matched = 0;
	struct sink_thread *thread = sink_enter_pop();
	if (thread) {
		struct sink_frame *frame = sink_find(thread, RANGE_SOURCE_TORCH_USER, (uint64_t)(uintptr_t)function);
		if (frame)
			matched = torch_close_frame(thread, frame, now);
		sink_leave(thread);
	}
	if (matched)
		steps_range_end(now);
}

/* This takes 60 ns; newer releases do not need it. */
static void look_for_profiler(void)
{
	uint8_t on = torch_symbols.profiler_enabled();
	if (on != atomic_load_explicit(&profiled, memory_order_relaxed))
		atomic_store_explicit(&profiled, on, memory_order_relaxed);
}

/* The end of a step that steps_usual_end() has not counted. The optimizer is found here, because the Python frames are
 * still those of the step's begin. */
static void step_ends(const void *function, const char *class, size_t bytes)
{
	if (life_forked())
		return;
	uint64_t now = sink_stamp(), at = sequence(), which = torch_which(class, bytes);
	if (steps_usual_end_of(nest_own, which, at, now))
		return;
	if (sink_recording())
		close_step_range(function, now);
	steps_optimizer_end(now, class, bytes, which, at, torch_symbols.sequence_peek != NULL);
}

static void named_ends(const void *function)
{
	size_t bytes;
	const char *class = class_of(torch_symbols.name(function), &bytes);
	step_ends(function, class, bytes);
}

/* The end of a step whose begin found the remembered name, which is kept until now. */
static __attribute__((noinline)) void known_ends(const void *function)
{
	const struct nest_entry *e = nest_own;
	if (e)
		step_ends(function, e->step_name + sizeof optimizer_prefix - 1, e->class_bytes);
	else
		named_ends(function);
}

static __attribute__((noinline)) void other_ends(const void *function, const void *context)
{
	if (context == &profiler_context) {
		atomic_store_explicit(&profiler_step_at, steps_count(), memory_order_relaxed);
		atomic_store_explicit(&profiler_step_end, sink_now(), memory_order_relaxed);
		atomic_fetch_sub_explicit(&profiler_steps, 1, memory_order_relaxed);
	} else if (context == &loader_context) {
		steps_batch_end();
	} else if (context == &optimizer_context) {
		named_ends(function);
	}
}

static void watch_end(const void *function, void *context)
{
	if (!context)
		return;
	if (context != (const void *)&known_context)
		other_ends(function, context);
	else if (!steps_usual_end(nest_own, torch_symbols.sequence_peek))
		known_ends(function);
	if (!torch_symbols.profiler_anywhere && torch_symbols.profiler_enabled)
		look_for_profiler();
}

static uint64_t handle;

int torch_watch(void)
{
	static unsigned watched[2];
	if (handle)
		return 0;
	int there = torch_find();
	if (there != 1)
		return there ? there : -ENOENT;
	unsigned place = gate_enter(GATE_OWN_NS);
	torch_which_init();
	caller_find();
	gate_leave(place);
	struct torch_callback callback = {.start = watch_start, .end = watch_end, .sampling = 1.0};
	callback.scopes[TORCH_SCOPE_USER] = 1;
	/* Registered before the first call into torch, and once more after torch has set up its callbacks: exit
	 * handlers that are registered last run first, so we end before these are taken down. */
	life_watch_exit(&watched[0]);
	handle = torch_add_callback(&callback);
	life_watch_exit(&watched[1]);
	return handle ? 0 : -EIO;
}

int torch_knows_batches(void)
{
	return torch_symbols.sequence_peek != NULL;
}

void torch_unwatch(void)
{
	if (handle)
		torch_remove_callback(handle);
	handle = 0;
	/* Ranges that are open now end without us. */
	atomic_store(&profiler_steps, 0);
	atomic_store(&profiler_step_end, 0);
	atomic_store(&profiled, 0);
}
