/* step_pair.c - ns of a profd_step() and of a profd_range_push/pop pair: fastest batch. `step_pair SECONDS`. Prints one
 * line of JSON; the clock read that a step cannot do without stands beside it. */
#include "pair.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static void nothing(void)
{
}
static void nothing_named(const char *name)
{
	(void)name;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? strtod(argv[1], NULL) : 1;
	void (*step)(void) = nothing, (*pop)(void) = nothing, (*push)(const char *) = nothing_named;
	void *found = dlsym(RTLD_DEFAULT, "profd_step");
	if (found) {
		*(void **)&step = found;
		*(void **)&push = dlsym(RTLD_DEFAULT, "profd_range_push");
		*(void **)&pop = dlsym(RTLD_DEFAULT, "profd_range_pop");
	}
	uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);
	double best_step = 1e9, best_pair = 1e9, best_clock = 1e9;
	do {
		uint64_t a = now_ns();
		for (int i = 0; i < PAIRS; i++)
			step();
		uint64_t b = now_ns();
		for (int i = 0; i < PAIRS; i++) {
			push("work");
			pop();
		}
		uint64_t c = now_ns();
		volatile uint64_t sum = 0;
		for (int i = 0; i < PAIRS; i++)
			sum += now_ns();
		uint64_t d = now_ns();
		double s = (double)(b - a) / PAIRS, p = (double)(c - b) / PAIRS, k = (double)(d - c) / PAIRS;
		best_step = s < best_step ? s : best_step;
		best_pair = p < best_pair ? p : best_pair;
		best_clock = k < best_clock ? k : best_clock;
		pause_between();
	} while (now_ns() < end);
	printf("{\"agent\": %s, \"step_ns\": %.2f, \"pair_ns\": %.2f, \"clock_ns\": %.2f}\n", found ? "true" : "false",
	       best_step, best_pair, best_clock);
	return 0;
}
