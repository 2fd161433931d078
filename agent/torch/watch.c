/* watch.c - steps: one global RecordFunction callback for user scopes, in any thread of the job, for the life of the
 * process. It alone tells the step counter of optimizers and loaders, so that each end of an Optimizer.step is told once,
 * whether or not a recording was switched on or off while it ran.
 *
 * A step ends where Optimizer.step ends and cuts no range, so while recording the range of that very Optimizer.step must
 * be closed before the tick. In which order torch runs the ends of several callbacks is torch's matter; hence both can
 * close it: the range's frame is found by the address of its at::RecordFunction, which no other open range can have. */
#include "../gate.h"
#include "../life.h"
#include "../steps/steps.h"
#include "../steps/usual.h"
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

/* Steps of torch.profilers that are open: one that has a schedule opens them from its start to its stop, while it waits, too. */
static atomic_int profiler_steps;
/* Was torch's own profiler on in the step thread, where alone its state can be read in older releases? */
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
	return atomic_load_explicit(&profiler_steps, memory_order_relaxed) > 0 && !torch_profiled();
}

static void destroy_nothing(void *context)
{
	(void)context;
}

/* What torch takes for an at::ObserverContext: its first word leads to {complete, deleting} destructor. */
static void (*const static_vtable[2])(void *) = {destroy_nothing, destroy_nothing};
static const struct {
	const void *vtable;
} optimizer_context = {static_vtable}, known_context = {static_vtable}, profiler_context = {static_vtable};

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

/* The names that a thread's Optimizer.step and Optimizer.zero_grad had last lie in its entry, so that they are taken apart once. They are
 * compared as texts: torch makes each anew. */
static __attribute__((noinline)) int remember(char to[NEST_NAME_BYTES], const char *name)
{
	size_t bytes = strlen(name) + 1;
	if (bytes > NEST_NAME_BYTES)
		return 0;
	memcpy(to, name, bytes);
	return 1;
}

/* Autograd's number of the next node in this thread. */
static uint64_t sequence(void)
{
	return torch_symbols.sequence_peek ? (uint64_t)torch_symbols.sequence_peek() : 0;
}

/* A step of this class begins. Returns 0 where it lies in another one. */
static __attribute__((noinline)) int step_begins(const char *class, size_t bytes)
{
	uint64_t *which = steps_optimizer_begin(class, bytes);
	if (which)
		*which = torch_which(class, bytes);
	return which != NULL;
}

/* What is no Optimizer.step of the name that this thread's last one had. */
static __attribute__((noinline)) void *watch_other(const char *name)
{
	if (name[0] == 'O' && !strncmp(name, optimizer_prefix, sizeof optimizer_prefix - 1)) {
		size_t bytes;
		const char *class = class_of(name, &bytes);
		struct nest_entry *e = step_begins(class, bytes) ? nest_own : NULL;
		if (e && remember(e->step_name, name))
			e->class_bytes = (uint32_t)bytes;
		return (void *)(uintptr_t)&optimizer_context;
	}
	if (name[0] == 'O' && !strncmp(name, zero_prefix, sizeof zero_prefix - 1)) {
		steps_zero_grad(sequence(), torch_symbols.sequence_peek != NULL);
		if (nest_own)
			remember(nest_own->zero_name, name);
	} else if (name[0] == 'P' && !strncmp(name, profiler_prefix, sizeof profiler_prefix - 1)) {
		atomic_fetch_add_explicit(&profiler_steps, 1, memory_order_relaxed);
		return (void *)(uintptr_t)&profiler_context;
	} else if (name[0] == 'e' && !strncmp(name, loader_prefix, sizeof loader_prefix - 1)) {
		size_t bytes = strlen(name), suffix = sizeof loader_suffix - 1;
		if (bytes >= suffix && !memcmp(name + bytes - suffix, loader_suffix, suffix))
			steps_loader_next();
	}
	return NULL;
}

static void *watch_start(void **to, const void *function)
{
	const char *name = torch_symbols.name(function);
	struct nest_entry *e = nest_own;
	*to = NULL;
	if (name[0] != 'O' && name[0] != 'P' && name[0] != 'e')
		return to;
	/* A step and a zero_grad take turns, mostly. */
	if (e && e->stepped && e->zero_name[0] && !strcmp(name, e->zero_name)) {
		e->stepped = 0;
		uint64_t at = sequence();
		if (!steps_usual_zero(e, at))
			steps_zero_grad(at, torch_symbols.sequence_peek != NULL);
	} else if (e && !strcmp(name, e->step_name)) {
		e->stepped = 1;
		if (!steps_usual_begin(e, sequence()))
			step_begins(e->step_name + sizeof optimizer_prefix - 1, e->class_bytes);
		*to = (void *)(uintptr_t)&known_context;
	} else {
		*to = watch_other(name);
	}
	return to;
}

/* Closes the range of an Optimizer.step that is recorded. */
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

/* 60 ns, which newer releases need not spend. */
static void look_for_profiler(void)
{
	uint8_t on = torch_symbols.profiler_enabled();
	if (on != atomic_load_explicit(&profiled, memory_order_relaxed))
		atomic_store_explicit(&profiled, on, memory_order_relaxed);
}

/* What steps_usual_end() does not do. */
static __attribute__((noinline)) void step_ends(const void *function)
{
	uint64_t now = sink_now();
	size_t bytes;
	const char *class = class_of(torch_symbols.name(function), &bytes);
	if (sink_recording())
		close_step_range(function, now);
	steps_optimizer_end(now, class, bytes, sequence(), torch_symbols.sequence_peek != NULL);
}

static void watch_end(const void *function, void *context)
{
	if (!context)
		return;
	struct nest_entry *e = nest_own;
	if (__builtin_expect(context != (const void *)&known_context, 0)) {
		if (context == (const void *)&profiler_context)
			atomic_fetch_sub_explicit(&profiler_steps, 1, memory_order_relaxed);
		if (context != (const void *)&optimizer_context)
			return;
		step_ends(function);
	} else if (!steps_usual_end(e, sequence())) {
		step_ends(function);
	}
	if (!torch_symbols.profiler_anywhere && torch_symbols.profiler_enabled)
		look_for_profiler();
}

int torch_watch(void)
{
	static uint64_t handle;
	static unsigned watched[2];
	if (handle)
		return 0;
	int there = torch_find();
	if (there != 1)
		return there ? there : -ENOENT;
	unsigned place = gate_enter(GATE_OWN_NS);
	torch_which_init();
	gate_leave(place);
	struct torch_callback callback = {.start = watch_start, .end = watch_end, .sampling = 1.0};
	callback.scopes[TORCH_SCOPE_USER] = 1;
	/* Before torch is called at all, and behind what it has set up for its callbacks, which is taken apart after us then. */
	life_watch_exit(&watched[0]);
	handle = torch_add_callback(&callback);
	life_watch_exit(&watched[1]);
	return handle ? 0 : -EIO;
}
