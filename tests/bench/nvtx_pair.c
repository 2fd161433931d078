/* nvtx_pair.c - the time of one NVTX push and pop: idle, and while somebody records.
 *
 *     nvtx_pair SECONDS       prints {"idle_ns", "recording_ns": the fastest batch of each, 0 = there was none,
 *                             "recording_batches", "floor_ns": two reads of the clock, each stored}
 *
 * NVTX itself tells which batch is which: without a tool a push answers NVTX_NO_PUSH_POP_TRACKING. The first batches of
 * a recording are its warm-up and are left out. */
#include "pair.h"

#include <stdio.h>
#include <stdlib.h>

#include <nvtx3/nvToolsExt.h>

#define WARM_UP_BATCHES 20

static double floor_of_a_batch(void)
{
	static uint64_t store[2 * PAIRS];
	uint64_t from = now_ns();
	for (int i = 0; i < PAIRS; i++) {
		store[2 * i] = now_ns();
		__asm__ volatile("" ::"r"(store) : "memory");
		store[2 * i + 1] = now_ns();
		__asm__ volatile("" ::"r"(store) : "memory");
	}
	return (double)(now_ns() - from) / PAIRS;
}

static int is_recording(void)
{
	int level = nvtxRangePushA("probe");
	nvtxRangePop();
	return level >= 0;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? strtod(argv[1], NULL) : 1, idle = 0, recording = 0, lowest = 0;
	uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);
	long batches = 0;
	while (now_ns() < end) {
		int before = is_recording();
		uint64_t from = now_ns();
		for (int i = 0; i < PAIRS; i++) {
			nvtxRangePushA("forward");
			nvtxRangePop();
		}
		double each = (double)(now_ns() - from) / PAIRS;
		if (before == is_recording()) {
			if (!before && (idle == 0 || each < idle))
				idle = each;
			if (before && batches++ >= WARM_UP_BATCHES && (recording == 0 || each < recording))
				recording = each;
		}
		each = floor_of_a_batch();
		if (lowest == 0 || each < lowest)
			lowest = each;
		pause_between();
	}
	printf("{\"idle_ns\": %.3f, \"recording_ns\": %.3f, \"recording_batches\": %ld, \"floor_ns\": %.3f}\n", idle,
	       recording, batches, lowest);
	return 0;
}
