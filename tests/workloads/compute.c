/* compute.c - a job whose output says all that it computed.
 *
 *     compute [--steps=N] [--step-ms=T] [--seed=S] [--every=K] [--until=FILE]
 *
 * Each step moves sixteen bodies, inside a profd range `move` where the agent is there, and takes at least T ms. Every K steps
 * a line is printed: the step and the bits of the sum of all places; where FILE is there by then, it is the last. The output
 * depends on the number of steps, S and K alone, so anything that watches the job must leave it as it is, to the last bit. */
#include "workload.h"

#include <math.h>

#define BODIES 16

static double place[BODIES], speed[BODIES];

static void move(double time)
{
	for (int i = 0; i < BODIES; i++) {
		double force = 0;
		for (int j = 0; j < BODIES; j++) {
			double distance = place[j] - place[i];
			force += distance / (1e-3 + fabs(distance * distance * distance));
		}
		speed[i] += force * time;
	}
	for (int i = 0; i < BODIES; i++)
		place[i] += speed[i] * time;
}

int main(int argc, char **argv)
{
	(void)argc;
	int steps = (int)number(argv, "steps", 1000), every = (int)number(argv, "every", 50);
	const char *until = argument(argv, "until", "");
	double step_time = number(argv, "step-ms", 5) * 1e-3, next = seconds();
	uint64_t random = (uint64_t)number(argv, "seed", 1) * 0x9e3779b97f4a7c15ull + 1;
	void (*push)(const char *), (*pop)(void);
	*(void **)&push = profd_function("profd_range_push");
	*(void **)&pop = profd_function("profd_range_pop");
	int agent = push && pop;
	for (int i = 0; i < BODIES; i++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		place[i] = (double)(random >> 11) * 0x1p-53;
	}
	for (int n = 1; n <= steps; n++) {
		if (agent)
			push("move");
		for (int i = 0; i < 10; i++)
			move(1e-5);
		if (agent)
			pop();
		if (n % every == 0 || n == steps) {
			double sum = 0;
			for (int i = 0; i < BODIES; i++)
				sum += place[i];
			printf("%d %a\n", n, sum);
			if (*until && access(until, F_OK) == 0)
				break;
		}
		pace(&next, step_time);
		step();
	}
	return 0;
}
