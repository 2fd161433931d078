/* collector.c - records operators and user ranges by one global RecordFunction callback for all scopes, which is
 * installed between start and stop and called in the job's threads.
 *
 * The context that torch keeps for an open function is the sink's frame itself, so nothing is allocated; its first word
 * leads to destructors that do nothing. torch may hold the frame long after stop. Frames are never unmapped, and the
 * end checks that the frame still belongs to this function (frame->key). */
#include "../../proto/events.h"
#include "../../proto/limits.h"
#include "../core/collector.h"
#include "../core/glob.h"
#include "../core/life.h"
#include "../core/sentence.h"
#include "../steps/steps.h"
#include "internal.h"
#include "torch.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#define OLDEST_MAJOR 2
#define OLDEST_MINOR 4

/* frame->foreign[1] of a function that is a step: its name matches the capture's step_range or step_operator, and no
 * function around it does. So an operator that calls itself (aten::sum with a type calls the one without) is one
 * step. */
#define MATCHED ((void *)1)

/* Globs of one recording. A callback that was removed may still run with the globs of the last recording, so the slots
 * are used in turn. At any time they hold texts that end with a NUL. */
#define GLOB_SLOTS 4
#define GLOB_BYTES 256
#define GLOB_CACHE 1024 /* a power of two */
struct globs {
	char range[GLOB_BYTES], operator[GLOB_BYTES];
	uint8_t shapes;
	/* By string id: recording << 32 | id << 1 | whether it matches. Not by address, because another operator's name
	 * may come to the address of one that was removed. */
	_Atomic uint64_t cache[GLOB_CACHE];
};
static struct globs slots[GLOB_SLOTS];
static _Atomic(struct globs *) current;

/* torch's own numbers of threads that have been written in this recording: generation << 32 | number. */
#define THREADS_TOLD 4096
static _Atomic uint64_t told[THREADS_TOLD];

static uint64_t handle;

static void destroy_nothing(void *context)
{
	(void)context;
}
static void (*const frame_vtable[2])(void *) = {destroy_nothing, destroy_nothing};

/* Contexts of functions that could not be recorded, but whose end is the end of a step. */
static const struct {
	const void *vtable;
} range_context = {frame_vtable}, operator_context = {frame_vtable};

/* id: the name's string id in this recording; 0 = none. */
static int operator_matches(struct globs *globs, const char *name, uint32_t id)
{
	if (!globs->operator[0])
		return 0;
	uint64_t key = (uint64_t)sink_recording() << 32 | (uint64_t)id << 1;
	_Atomic uint64_t *cached = &globs->cache[id & (GLOB_CACHE - 1)];
	uint64_t seen = atomic_load_explicit(cached, memory_order_relaxed);
	if (!id || (seen & ~1ull) != key) {
		seen = key | (uint64_t)glob_match(globs->operator, name, strlen(name));
		if (id)
			atomic_store_explicit(cached, seen, memory_order_relaxed);
	}
	return (int)(seen & 1);
}

/* Writes torch's number of the calling thread, once in a recording. */
static void tell_thread(struct sink_thread *thread, const void *function)
{
	uint32_t number = (uint32_t)TORCH_AT(uint64_t, function, torch_offsets.function_thread);
	uint32_t generation = sink_recording();
	_Atomic uint64_t *slot = &told[number % THREADS_TOLD];
	uint64_t seen = atomic_load_explicit(slot, memory_order_relaxed);
	/* If the numbers of two threads share a slot, the second is not written; otherwise both would be written again
	 * and again. */
	if (__builtin_expect(seen >> 32 == generation, 1))
		return;
	struct event_thread record = {
		.head = {sizeof record, EVENT_THREAD, 0, 0},
		.thread = sink_tid(thread),
		.torch_id = number,
	};
	/* In the first moments of warm-up there may be fewer chunks than threads: then the next operator writes it. */
	if (sink_write_spared(thread, &record))
		atomic_store_explicit(slot, (uint64_t)generation << 32 | number, memory_order_relaxed);
}

static int is_matched(const struct sink_frame *frame)
{
	return frame->foreign[1] == MATCHED;
}

static void *record_start(void **to, const void *function)
{
	const struct torch_offsets *o = &torch_offsets;
	struct globs *globs = atomic_load_explicit(&current, memory_order_acquire);
	uint8_t scope = TORCH_AT(uint8_t, function, o->function_scope);
	int is_user = scope == TORCH_SCOPE_USER;
	uint8_t kind = is_user ? EVENT_RANGE : EVENT_OPERATOR;
	struct sink_thread *thread = sink_enter(kind);
	*to = NULL;
	if (!thread && !globs->range[0] && !globs->operator[0])
		return to;

	const char *name = torch_symbols.name(function);
	/* A schema's name lies at one address as long as its operator exists; the name of a user range or an autograd
	 * node is freed with it. */
	int is_static = TORCH_AT(uint8_t, function, o->function_index) == 1;
	struct sink_frame *frame = thread ? sink_open(thread, kind) : NULL;
	uint32_t id = 0;
	if (frame)
		id = is_static ? sink_string_static(thread, name, kind) : sink_string(thread, name, strlen(name), kind);
	int matched = is_user ? globs->range[0] && glob_match(globs->range, name, strlen(name))
			      : operator_matches(globs, name, id);
	if (__builtin_expect(matched, 0) && thread) {
		if (frame)
			frame->foreign[1] = NULL;
		matched = !sink_within(thread, kind, is_user ? RANGE_SOURCE_TORCH_USER : 0, is_matched);
	}
	if (frame) {
		uint32_t *words = sink_words(thread);
		uint32_t n = globs->shapes ? torch_describe_inputs(function, words) : 0;
		frame->foreign[0] = (void *)(uintptr_t)frame_vtable;
		frame->foreign[1] = matched ? MATCHED : NULL;
		frame->key = (uint64_t)(uintptr_t)function;
		frame->source = is_user ? RANGE_SOURCE_TORCH_USER : scope;
		frame->name = id;
		frame->sequence = TORCH_AT(int64_t, function, o->function_sequence);
		frame->forward_thread = (uint32_t)TORCH_AT(uint64_t, function, o->function_forward);
		frame->inputs = n ? sink_inputs(thread, words, n, kind) : 0;
		if (__builtin_expect(!is_user && atomic_load_explicit(&torch_stacks_on, memory_order_acquire), 0))
			torch_stack(thread, frame);
		tell_thread(thread, function);
		*to = &frame->foreign[0];
		frame->start = sink_stamp();
	} else if (matched) {
		*to = (void *)(uintptr_t)(is_user ? &range_context : &operator_context);
	}
	if (__builtin_expect(!is_static && scope == TORCH_SCOPE_FUNCTION, 0) && thread && torch_is_collective(name))
		torch_collective(thread, frame);
	if (thread)
		sink_leave(thread);
	return to;
}

int torch_close_frame(struct sink_thread *thread, struct sink_frame *frame, uint64_t now)
{
	int matched = frame->foreign[1] == MATCHED;
	frame->foreign[1] = NULL;
	frame->key = 0;
	sink_close(thread, frame, now);
	return matched;
}

static void record_end(const void *function, void *context)
{
	uint64_t now = sink_stamp();
	struct sink_frame *frame = context;
	if (!context)
		return;
	if (context == (const void *)&range_context) {
		steps_range_end(now);
		return;
	}
	if (context == (const void *)&operator_context) {
		steps_operator_end(now);
		return;
	}
	if (frame->key != (uint64_t)(uintptr_t)function)
		return; /* watch.c has closed it at the end of the same function */
	int is_user = frame->kind == EVENT_RANGE, matched = frame->foreign[1] == MATCHED;
	struct sink_thread *thread = sink_enter_end(frame);
	if (thread) {
		torch_close_frame(thread, frame, now);
		sink_leave(thread);
	}
	if (matched && is_user)
		steps_range_end(now);
	else if (matched)
		steps_operator_end(now);
}

/* ---------------------------------------------------------------- the vtable */

/* 1 where `version` is too old for operators; 0 where it is not, or cannot be read (then calibration decides). */
static int too_old(const char *version)
{
	uint32_t numbers[2] = {0, 0};
	for (int i = 0; i < 2; i++) {
		const char *first = version;
		for (; *version >= '0' && *version <= '9' && version - first < 6; version++)
			numbers[i] = numbers[i] * 10 + (uint32_t)(*version - '0');
		if (version == first || (i == 0 && *version++ != '.'))
			return 0;
	}
	return numbers[0] < OLDEST_MAJOR || (numbers[0] == OLDEST_MAJOR && numbers[1] < OLDEST_MINOR);
}

static int refuse(char *sentence, size_t bytes)
{
	char version[64];
	int there = torch_find();
	if (there != 1) {
		sentence_put(sentence, bytes,
			     there ? "this torch has no RecordFunction callbacks: neither its steps nor its operators "
				     "can be seen"
				   : "no torch in this process",
			     NULL);
		return -ENOENT;
	}
	torch_version(version, sizeof version);
	if (too_old(version)) {
		sentence_put(sentence, bytes, "operators need torch 2.4 or later; this is ", version,
			     "; steps, NVTX ranges and profd's own ranges still work", NULL);
		return -ENOTSUP;
	}
	return 0;
}

static int torch_probe(char *sentence, size_t bytes)
{
	char version[64];
	if (refuse(sentence, bytes))
		return 0;
	torch_version(version, sizeof version);
	sentence_put(sentence, bytes, "operators, user ranges and steps of torch", version[0] ? " " : "", version,
		     "; its layout is checked when a capture is armed",
		     torch_profiled()	      ? "; torch.profiler is at work there now"
		     : torch_profiler_waits() ? "; a torch.profiler there waits in its schedule, and is not at work now"
					      : "",
		     NULL);
	return 1;
}

static int torch_others(char *sentence, size_t bytes)
{
	if (!torch_profiled())
		return 0;
	sentence_put(sentence, bytes, "torch.profiler is at work there", NULL);
	return 1;
}

static int torch_arm(const struct collector_request *request, char *sentence, size_t bytes)
{
	char version[64], reason[128];
	(void)request;
	int error = refuse(sentence, bytes);
	if (error)
		return error;
	error = torch_calibrate(reason, sizeof reason);
	if (error) {
		torch_version(version, sizeof version);
		sentence_put(sentence, bytes, "operators of this torch", version[0] ? " (" : "", version,
			     version[0] ? ")" : "", " cannot be recorded: ", reason,
			     "; steps, NVTX ranges and profd's own ranges still work", NULL);
	}
	return error;
}

static int torch_start(const struct collector_request *request, char *sentence, size_t bytes)
{
	static uint32_t slot;
	static unsigned watched;
	struct globs *globs = &slots[slot++ % GLOB_SLOTS];
	if (handle)
		return 0;
	for (size_t i = 0; i < GLOB_CACHE; i++)
		atomic_store_explicit(&globs->cache[i], 0, memory_order_relaxed);
	sentence_put(globs->range, sizeof globs->range, request->step_range, NULL);
	sentence_put(globs->operator, sizeof globs->operator, request->step_operator, NULL);
	globs->shapes = request->wanted >> COLLECTOR_SHAPES & 1;
	atomic_store_explicit(&current, globs, memory_order_release);

	/* All scopes, as torch.profiler does. */
	struct torch_callback callback = {
		.start = record_start, .end = record_end, .sampling = 1.0, .needs_inputs = globs->shapes};
	memset(callback.scopes, 1, sizeof callback.scopes);
	handle = torch_add_callback(&callback);
	/* Registered once more, so that we also end before what calibration has set up in torch. */
	life_watch_exit(&watched);
	if (!handle) {
		sentence_put(sentence, bytes, "torch did not accept a callback", NULL);
		return -EIO;
	}
	return 0;
}

bool torch_is_on(void)
{
	return handle != 0;
}

static void torch_stop(void)
{
	if (handle)
		torch_remove_callback(handle);
	handle = 0;
}

static void torch_disarm(void)
{
	/* Calibration, symbols and globs stay: callbacks may still be inside. */
}

const struct collector_ops collector_torch = {
	.bit = COLLECTOR_TORCH,
	.probe = torch_probe,
	.others = torch_others,
	.arm = torch_arm,
	.start = torch_start,
	.stop = torch_stop,
	.disarm = torch_disarm,
};
