/* boundaries.c - where the recorded steps begin and end, and in which of them a time lies. The step thread writes here,
 * or the agent's thread where there are no steps; any thread reads. */
#include "internal.h"

#include "agent/core/room.h"
#include "proto/limits.h"

#include <errno.h>

/* Starts of as many steps as a capture can have. */
#define BOUNDARIES (LIMIT_STEPS + 2)

int boundaries_prepare(void)
{
	if (!sink_state.boundaries) {
		void *map = room_map(BOUNDARIES * sizeof *sink_state.boundaries);
		if (!map)
			return -ENOMEM;
		sink_state.boundaries = map;
	}
	atomic_store(&sink_state.boundary_count, 0);
	atomic_store(&sink_state.record_end, 0);
	return 0;
}

/* Step thread. */
static void boundary_add(uint64_t now)
{
	uint32_t count = atomic_load_explicit(&sink_state.boundary_count, memory_order_relaxed);
	if (count >= BOUNDARIES)
		return;
	atomic_store_explicit(&sink_state.boundaries[count], now, memory_order_relaxed);
	atomic_store_explicit(&sink_state.boundary_count, count + 1, memory_order_release);
}

uint64_t sink_record_start(void)
{
	return atomic_load_explicit(&sink_state.boundary_count, memory_order_acquire)
		       ? atomic_load_explicit(&sink_state.boundaries[0], memory_order_relaxed)
		       : 0;
}

uint64_t sink_record_end(void)
{
	return atomic_load_explicit(&sink_state.record_end, memory_order_acquire);
}

uint32_t sink_step_at(uint64_t time, uint64_t doubt, int *ret_doubtful)
{
	uint64_t end = sink_record_end();
	uint32_t count = atomic_load_explicit(&sink_state.boundary_count, memory_order_acquire);
	/* The number of boundaries at or before `time` is the step's ordinal. */
	uint32_t low = 0, high = count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (atomic_load_explicit(&sink_state.boundaries[middle], memory_order_relaxed) <= time)
			low = middle + 1;
		else
			high = middle;
	}
	uint64_t nearest = UINT64_MAX;
	if (low > 0)
		nearest = time - atomic_load_explicit(&sink_state.boundaries[low - 1], memory_order_relaxed);
	if (low < count) {
		uint64_t next = atomic_load_explicit(&sink_state.boundaries[low], memory_order_relaxed) - time;
		nearest = next < nearest ? next : nearest;
	}
	if (end) {
		uint64_t last = end > time ? end - time : time - end;
		nearest = last < nearest ? last : nearest;
	}
	*ret_doubtful = nearest <= doubt;
	return end && time >= end ? 0 : low;
}

void sink_begin(uint64_t now)
{
	struct segment_header *h = sink_state.segment.header;
	struct timespec real;
	clock_gettime(CLOCK_REALTIME, &real);
	/* `now` was read a little earlier; both clocks are given for that instant. */
	uint64_t since = sink_now() - now;
	atomic_store_explicit(&h->base_monotonic, now, memory_order_relaxed);
	atomic_store_explicit(&h->base_realtime, (uint64_t)real.tv_sec * 1000000000u + (uint64_t)real.tv_nsec - since,
			      memory_order_relaxed);
	atomic_store_explicit(&h->record_start, now, memory_order_relaxed);
	boundary_add(now);
	atomic_store_explicit(&sink_state.muted, 0, memory_order_relaxed);
	atomic_store_explicit(&sink_state.step, 1, memory_order_release);
}

void sink_next_step(uint32_t step, uint64_t now)
{
	boundary_add(now);
	atomic_store_explicit(&sink_state.step, step, memory_order_relaxed);
}

void sink_end(uint64_t now)
{
	atomic_store_explicit(&sink_state.record_end, now, memory_order_release);
	atomic_store_explicit(&sink_state.step, 0, memory_order_relaxed);
	atomic_store_explicit(&sink_state.muted, 1, memory_order_relaxed);
}
