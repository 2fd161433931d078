/* collector.c - records blocks of memory that torch's allocators give to the job's threads, and take back. torch tells
 * its profiler each block. For a GPU's block it always calls c10::reportMemoryUsageToProfiler; for a CPU's block it
 * calls c10::ProfiledCPUMemoryReporter, which calls the former only while torch profiles. All these functions are
 * called through slots, and during a capture the slots lead to our hooks.
 *
 * The hooks run in any thread of the job, with torch's allocator locked, perhaps in a signal handler. The last thing
 * that a hook does is to call the real function with the same arguments, as a tail call, so that a C++ exception meets
 * no frame of ours. */
#include "../core/collector.h"
#include "../core/object.h"
#include "../core/room.h"
#include "../core/sentence.h"
#include "../torch/torch.h"
#include "blocks.h"
#include "slots.h"

#include "agent/sink/sink.h"

#include <errno.h>

/* c10::Device by value: its type in the low byte, its number in the high one. */
#define DEVICE_CPU (FRAMEWORK_DEVICE_ALONE << 8 | FRAMEWORK_CPU)
#define LIBRARY "libc10."
/* How often to look whether a library has been loaded. */
#define LOOK_NS 50000000ull

static void report_hook(void *block, int64_t bytes, uint64_t total, uint64_t reserved, uint16_t device);
static void new_hook(void *reporter, void *block, uint64_t bytes);
static void delete_hook(void *reporter, void *block);

enum hook { HOOK_REPORT, HOOK_NEW, HOOK_DELETE, HOOKS };
static struct slot_hook hooks[HOOKS] = {
	/* Inside libc10 only the CPU's reporter calls this function, and the other two hooks see the reporter's
	 * blocks. */
	[HOOK_REPORT] = {.symbol = "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE",
			 .function = (void *)(uintptr_t)report_hook,
			 .others_only = true},
	[HOOK_NEW] = {.symbol = "_ZN3c1025ProfiledCPUMemoryReporter3NewEPvm", .function = (void *)(uintptr_t)new_hook},
	[HOOK_DELETE] = {.symbol = "_ZN3c1025ProfiledCPUMemoryReporter6DeleteEPv",
			 .function = (void *)(uintptr_t)delete_hook},
};

static _Atomic uint32_t is_on;
static uint64_t look_at, loaded;
static unsigned looks; /* looks after a change: an object that was being loaded then is loaded by the last look */

/* ---------------------------------------------------------------- hooks */

static inline bool records(void)
{
	return atomic_load_explicit(&is_on, memory_order_relaxed) && sink_recording();
}

static void tell(struct event_framework_allocation *record, void *block, uint16_t device)
{
	struct sink_thread *t = sink_enter(EVENT_FRAMEWORK_ALLOCATION);
	if (!t)
		return;
	record->head = (struct event_head){sizeof *record, EVENT_FRAMEWORK_ALLOCATION, 0, sink_step()};
	record->time = sink_stamp();
	record->address = (uintptr_t)block;
	record->parent = sink_innermost(t);
	record->thread = sink_tid(t);
	record->device_type = (uint8_t)device;
	record->device = (uint8_t)(device >> 8);
	sink_write(t, record);
	sink_leave(t);
}

/* NOLINTNEXTLINE(readability-non-const-parameter): torch's own type */
static void report_hook(void *block, int64_t bytes, uint64_t total, uint64_t reserved, uint16_t device)
{
	void (*real)(void *, int64_t, uint64_t, uint64_t, uint16_t) =
		(void (*)(void *, int64_t, uint64_t, uint64_t, uint16_t))(uintptr_t)atomic_load_explicit(
			&hooks[HOOK_REPORT].real, memory_order_relaxed);
	if (records() && bytes) {
		/* For the CPU torch tells only the total that its profiler has seen, so it is left out. */
		bool totals = (device & 0xff) != FRAMEWORK_CPU;
		struct event_framework_allocation record = {
			.bytes = bytes < 0 ? 0 - (uint64_t)bytes : (uint64_t)bytes,
			.total = totals ? total : 0,
			.reserved = totals ? reserved : 0,
			.operation = bytes < 0 ? ALLOCATION_GIVEN_BACK : ALLOCATION_TAKEN,
			.known = totals ? ALLOCATION_KNOWS_BYTES | ALLOCATION_KNOWS_TOTALS : ALLOCATION_KNOWS_BYTES,
		};
		tell(&record, block, device);
	}
	real(block, bytes, total, reserved, device);
}

static void new_hook(void *reporter, void *block, uint64_t bytes)
{
	void (*real)(void *, void *, uint64_t) = (void (*)(void *, void *, uint64_t))(uintptr_t)atomic_load_explicit(
		&hooks[HOOK_NEW].real, memory_order_relaxed);
	if (records() && bytes) {
		struct event_framework_allocation record = {
			.bytes = bytes, .operation = ALLOCATION_TAKEN, .known = ALLOCATION_KNOWS_BYTES};
		blocks_put((uintptr_t)block, bytes);
		tell(&record, block, DEVICE_CPU);
	}
	real(reporter, block, bytes);
}

static void delete_hook(void *reporter, void *block)
{
	void (*real)(void *, void *) = (void (*)(void *, void *))(uintptr_t)atomic_load_explicit(
		&hooks[HOOK_DELETE].real, memory_order_relaxed);
	if (records() && block) {
		struct event_framework_allocation record = {.operation = ALLOCATION_GIVEN_BACK};
		if (blocks_take((uintptr_t)block, &record.bytes))
			record.known = ALLOCATION_KNOWS_BYTES;
		else if (blocks_crowded())
			record.known = ALLOCATION_CROWDED;
		tell(&record, block, DEVICE_CPU);
	}
	real(reporter, block);
}

/* ---------------------------------------------------------------- the collector */

static int find(char *sentence, size_t bytes)
{
	const char *why = NULL;
	slots_find(LIBRARY, hooks, HOOKS);
	if (torch_find() <= 0)
		why = "torch is not loaded in this process";
	else if (!atomic_load(&hooks[HOOK_NEW].real) || !atomic_load(&hooks[HOOK_DELETE].real) ||
		 !atomic_load(&hooks[HOOK_REPORT].real))
		why = "this torch does not report its allocations through functions that profd knows";
	if (why)
		sentence_put(sentence, bytes, why, NULL);
	return why ? -ENOSYS : 0;
}

static int memory_probe(char *sentence, size_t bytes)
{
	if (find(sentence, bytes) < 0)
		return 0;
	sentence_put(sentence, bytes, "allocations of torch, on the CPU and on GPUs", NULL);
	return 1;
}

static int memory_arm(const struct collector_request *request, char *sentence, size_t bytes)
{
	(void)request;
	int error = find(sentence, bytes);
	if (error < 0)
		return error;
	error = blocks_take_room();
	if (error < 0)
		sentence_put(sentence, bytes, "no memory for the sizes of blocks", ROOM_NEAR_LIMIT, NULL);
	return error;
}

/* Writes the sentence about slots that are not ours. */
static void say_others(const struct slots_state *state, char *sentence, size_t bytes)
{
	char holder[64] = "";
	struct sentence s = sentence_begin(sentence, bytes);
	if (state->foreign)
		object_name_at(state->foreign_function, holder, sizeof holder);
	if (*holder) {
		sentence_add(&s, "another tool (");
		sentence_add(&s, holder);
		sentence_add(&s, ") holds some of torch's calls, and they are left to it");
	} else if (state->refused) {
		sentence_add(&s, "some of torch's calls lie in memory that cannot be written, and are not recorded");
	}
}

static int memory_start(const struct collector_request *request, char *sentence, size_t bytes)
{
	struct slots_state state;
	(void)request;
	atomic_store(&is_on, 1);
	loaded = slots_loaded();
	slots_set(LIBRARY, hooks, HOOKS, true, &state);
	looks = 1;
	look_at = 0;
	say_others(&state, sentence, bytes);
	if (state.ours)
		return 0;
	atomic_store(&is_on, 0);
	if (!*sentence)
		sentence_put(sentence, bytes, "nothing in this process calls torch's allocators", NULL);
	return -EBUSY;
}

static uint64_t memory_poll(uint64_t now, uint32_t step_thread)
{
	(void)step_thread;
	if (now < look_at)
		return look_at;
	uint64_t is = slots_loaded();
	if (is != loaded)
		looks = 2;
	loaded = is;
	if (looks && look_at) {
		struct slots_state state;
		slots_set(LIBRARY, hooks, HOOKS, true, &state);
		looks -= !state.unfinished;
	}
	return look_at = now + LOOK_NS;
}

static void memory_stop(void)
{
	struct slots_state state;
	atomic_store(&is_on, 0);
	slots_set(LIBRARY, hooks, HOOKS, false, &state);
}

static void memory_disarm(void)
{
	blocks_give_back();
}

const struct collector_ops collector_memory = {
	.bit = COLLECTOR_ALLOCATIONS,
	.probe = memory_probe,
	.arm = memory_arm,
	.start = memory_start,
	.poll = memory_poll,
	.stop = memory_stop,
	.bytes = blocks_bytes,
	.disarm = memory_disarm,
};
