/* clock.c - CUPTI's clock. It is CLOCK_REALTIME at first, always as far from CLOCK_MONOTONIC as at the start. The script can make
 * it count ticks, jump, drift, or tell devices other times than calls. A client can set another clock by a callback. Any
 * thread; the callback is set under sim_lock, the rest is written once. */
#include "simcupti.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct {
	int64_t offset; /* realtime less monotonic */
	uint64_t start; /* monotonic, when the first kind was enabled */
	bool ticks, jumps;
	int64_t jump, jump_after, skew, drift;
	CUpti_TimestampCallbackFunc callback;
	uint64_t callback_start, callback_value;
} clock_state;
static pthread_once_t load_once = PTHREAD_ONCE_INIT;

static uint64_t read_clock(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t sim_monotonic(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

/* A signed time of the script: a minus, then what script_time reads. */
static int64_t signed_time(const char *key)
{
	const char *value = script_value(key);
	if (!value)
		return 0;
	bool negative = value[0] == '-';
	char *unit;
	double number = strtod(value + negative, &unit), scale = 1;
	if (strncmp(unit, "us", 2) == 0)
		scale = 1e3;
	else if (strncmp(unit, "ms", 2) == 0)
		scale = 1e6;
	else if (strncmp(unit, "s", 1) == 0)
		scale = 1e9;
	return (int64_t)(number * scale) * (negative ? -1 : 1);
}

static void load(void)
{
	int64_t least = INT64_MAX;
	for (int i = 0; i < 8; i++) {
		int64_t before = (int64_t)read_clock(CLOCK_MONOTONIC), real = (int64_t)read_clock(CLOCK_REALTIME);
		int64_t after = (int64_t)read_clock(CLOCK_MONOTONIC);
		if (after - before < least) {
			least = after - before;
			clock_state.offset = real - (before + after) / 2;
		}
	}
	const char *kind = script_value("clock");
	clock_state.ticks = kind && strcmp(kind, "tsc") == 0;
	clock_state.jumps = kind && strcmp(kind, "step") == 0;
	clock_state.jump = script_value("step") ? signed_time("step") : 2000000000;
	clock_state.jump_after = (int64_t)script_time("step_after", 200000000);
	clock_state.skew = signed_time("skew");
	clock_state.drift = signed_time("drift");
}

void sim_clock_start(void)
{
	pthread_once(&load_once, load);
	uint64_t none = 0;
	__atomic_compare_exchange_n(&clock_state.start, &none, sim_monotonic(), false, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
}

void sim_clock_callback(CUpti_TimestampCallbackFunc function)
{
	clock_state.callback_start = sim_monotonic();
	clock_state.callback_value = function();
	clock_state.callback = function;
}

/* A past time on the clock of the client's callback: along the line from its registration to now. */
static uint64_t by_callback(uint64_t monotonic)
{
	uint64_t now = sim_monotonic();
	double rate = now == clock_state.callback_start
			      ? 1
			      : (double)(int64_t)(clock_state.callback() - clock_state.callback_value) /
					(double)(now - clock_state.callback_start);
	return clock_state.callback_value +
	       (uint64_t)(int64_t)((double)(int64_t)(monotonic - clock_state.callback_start) * rate);
}

uint64_t sim_time(uint64_t monotonic, bool host)
{
	pthread_once(&load_once, load);
	int64_t start = (int64_t)__atomic_load_n(&clock_state.start, __ATOMIC_RELAXED), time = (int64_t)monotonic;
	if (!host)
		time += clock_state.skew;
	if (clock_state.callback)
		return by_callback((uint64_t)time);
	if (start && clock_state.drift)
		time += (time - start) / 1000 * clock_state.drift / 1000;
	if (clock_state.jumps && start && (int64_t)monotonic - start >= clock_state.jump_after)
		time += clock_state.jump;
	if (clock_state.ticks)
		return (uint64_t)((__int128)time * 2894123 / 1000000) + 700000000000000000u;
	return (uint64_t)(time + clock_state.offset);
}
