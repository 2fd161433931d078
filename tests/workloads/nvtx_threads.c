/* nvtx_threads.c - threads that push and pop as fast as they can.
 *
 *     nvtx_threads [--threads=N] [--pairs=M] [--pause-us=P] [--rounds=R]
 *
 * R rounds; in each, all threads make M pairs, then wait for each other and the first steps. Prints one line of JSON
 * with what was produced: threads, pairs of each in a round, rounds, ranges in a round. */
#include "workload.h"

#include <pthread.h>
#include <signal.h>

#include <nvtx3/nvToolsExt.h>

static long pairs, rounds, done;
static double pause_time;
static pthread_barrier_t barrier;
static volatile sig_atomic_t enough;
static int stopping;

static void on_term(int signal)
{
	(void)signal;
	enough = 1;
}

static void *work(void *first)
{
	for (long r = 0; r < rounds; r++) {
		for (long i = 0; i < pairs; i++) {
			nvtxRangePushA(i & 1 ? "odd" : "even");
			nvtxRangePop();
		}
		pthread_barrier_wait(&barrier);
		if (first) {
			if (pause_time > 0)
				wait_until(seconds() + pause_time);
			done++;
			stopping = enough != 0;
			step();
		}
		pthread_barrier_wait(&barrier);
		if (stopping)
			break;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	(void)argc;
	long threads = (long)number(argv, "threads", 8);
	pairs = (long)number(argv, "pairs", 10000);
	rounds = (long)number(argv, "rounds", 1e9);
	pause_time = number(argv, "pause-us", 0) * 1e-6;
	pthread_t *all = calloc((size_t)threads, sizeof *all);
	signal(SIGTERM, on_term);
	pthread_barrier_init(&barrier, NULL, (unsigned)threads);
	for (long i = 1; i < threads; i++)
		if (pthread_create(&all[i], NULL, work, NULL) != 0)
			return 1;
	work(&barrier);
	for (long i = 1; i < threads; i++)
		pthread_join(all[i], NULL);
	printf("{\"threads\": %ld, \"pairs\": %ld, \"rounds\": %ld, \"ranges_per_step\": %ld}\n", threads, pairs, done,
	       threads * pairs);
	free(all);
	return 0;
}
