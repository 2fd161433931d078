/* steps.c - a loop that steps, with deterministic work.
 *
 *     steps [--steps=N] [--step-ms=T] [--slow-ms=T] [--ranges=R] [--marks=M] [--seconds=S] [--begin=S]
 *           [--no-step]
 *
 * After SIGUSR1 a step takes --slow-ms, after SIGUSR2 a millisecond: whoever has to come before a step is over gives it time, and the
 * job hurries when that is done. Each step makes R profd ranges (`work 0`, `work 1`, ...) in one `step`, and M marks.
 * --begin is the second of CLOCK_MONOTONIC at which the first step begins, so that several jobs step in time with each other.
 * --no-step leaves profd_step() out. Without the agent the calls are left out. Prints one line of JSON: steps, ranges and
 * marks of a step, and a checksum of the work, which nothing that watches may change. */
#include "workload.h"

#include <signal.h>

static volatile sig_atomic_t enough, slow, hurried;

static void on_term(int signal)
{
	(void)signal;
	enough = 1;
}

static void on_usr1(int signal)
{
	(void)signal;
	slow = 1;
}

static void on_usr2(int signal)
{
	(void)signal;
	hurried = 1;
}

int main(int argc, char **argv)
{
	double steps = number(argv, "steps", 1e12), step_time = number(argv, "step-ms", 5) * 1e-3;
	double end = seconds() + number(argv, "seconds", 1e9), next, n = 0;
	int ranges = (int)number(argv, "ranges", 4), marks = (int)number(argv, "marks", 1), stepping = 1;
	uint64_t sum = 88172645463325252ull, uncounted = sum;
	void (*push)(const char *), (*pop)(void), (*mark)(const char *);
	*(void **)&push = profd_function("profd_range_push");
	*(void **)&pop = profd_function("profd_range_pop");
	*(void **)&mark = profd_function("profd_mark");
	int agent = push && pop && mark;
	for (int i = 1; i < argc; i++)
		stepping &= strcmp(argv[i], "--no-step") != 0;
	double slow_time = number(argv, "slow-ms", 5) * 1e-3;
	wait_until(number(argv, "begin", 0));
	next = seconds();
	signal(SIGTERM, on_term);
	signal(SIGUSR1, on_usr1);
	signal(SIGUSR2, on_usr2);
	while ((n < steps || stays()) && !enough && seconds() < end) {
		uint64_t *into = n < steps ? &sum : &uncounted;
		if (agent)
			push("step");
		for (int r = 0; r < ranges; r++) {
			char name[32];
			snprintf(name, sizeof name, "work %d", r);
			if (agent)
				push(name);
			for (int i = 0; i < 1000; i++) { /* xorshift64 */
				*into ^= *into << 13;
				*into ^= *into >> 7;
				*into ^= *into << 17;
			}
			if (agent)
				pop();
		}
		for (int m = 0; agent && m < marks; m++)
			mark("mark");
		pace(&next, hurried ? 1e-3 : slow ? slow_time : step_time);
		if (agent)
			pop();
		if (stepping)
			step();
		n += n < steps;
	}
	printf("{\"steps\": %.0f, \"ranges_per_step\": %d, \"marks_per_step\": %d, \"agent\": %s, \"checksum\": "
	       "\"%016llx\"}\n",
	       n, ranges + 1, marks, agent ? "true" : "false", (unsigned long long)sum);
	return 0;
}
