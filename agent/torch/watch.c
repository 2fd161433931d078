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
} optimizer_context = {static_vtable}, profiler_context = {static_vtable};

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

/* Autograd's number of the next node in this thread. */
static uint64_t sequence(void)
{
	return torch_symbols.sequence_peek ? (uint64_t)torch_symbols.sequence_peek() : 0;
}

static void *watch_start(void **to, const void *function)
{
	*to = NULL;
	const char *name = torch_symbols.name(function);
	if (name[0] == 'O' && !strncmp(name, optimizer_prefix, sizeof optimizer_prefix - 1)) {
		size_t bytes;
		const char *class = class_of(name, &bytes);
		uint64_t *which = steps_optimizer_begin(class, bytes);
		if (which)
			*which = torch_which(class, bytes);
		*to = (void *)(uintptr_t)&optimizer_context;
	} else if (name[0] == 'O' && !strncmp(name, zero_prefix, sizeof zero_prefix - 1)) {
		steps_zero_grad(sequence(), torch_symbols.sequence_peek != NULL);
	} else if (name[0] == 'P' && !strncmp(name, profiler_prefix, sizeof profiler_prefix - 1)) {
		atomic_fetch_add_explicit(&profiler_steps, 1, memory_order_relaxed);
		*to = (void *)(uintptr_t)&profiler_context;
	} else if (name[0] == 'e' && !strncmp(name, loader_prefix, sizeof loader_prefix - 1)) {
		size_t bytes = strlen(name), suffix = sizeof loader_suffix - 1;
		if (bytes >= suffix && !memcmp(name + bytes - suffix, loader_suffix, suffix))
			steps_loader_next();
	}
	return to;
}

static void watch_end(const void *function, void *context)
{
	if (context == (const void *)&profiler_context)
		atomic_fetch_sub_explicit(&profiler_steps, 1, memory_order_relaxed);
	if (context != (const void *)&optimizer_context)
		return;
	uint64_t now = sink_now();
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
	size_t bytes;
	const char *class = class_of(torch_symbols.name(function), &bytes);
	steps_optimizer_end(now, class, bytes, sequence(), torch_symbols.sequence_peek != NULL);
	/* 60 ns, which newer releases need not spend. */
	if (torch_symbols.profiler_anywhere || !torch_symbols.profiler_enabled)
		return;
	uint8_t on = torch_symbols.profiler_enabled();
	if (on != atomic_load_explicit(&profiled, memory_order_relaxed))
		atomic_store_explicit(&profiled, on, memory_order_relaxed);
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
