/* cuda_flood.c - as many empty launches as there can be: what one costs the thread that makes it.
 *
 *     cuda_flood [--seconds=T] [--launches=N] [--batch=B] [--threads=T] [--step-every=E] [--no-step]
 *
 * Each of T threads (1), on a stream of its own, launches batches of B (500) empty kernels and waits for each batch; only the
 * launching is measured. After T seconds (2) or N launches a thread (1e12) it ends. The first thread steps after every E
 * batches (1).
 *
 * Prints a line of JSON: launches, steps, ns_mean, ns_median and ns_least per launch (of batches), seconds, device. */
#include "tests/workloads/cuda/tally.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

enum { MAX_THREADS = 32, MAX_BATCHES = 1 << 20 };

struct worker {
	pthread_t thread;
	int number;
	stream stream;
	uint64_t launches, steps, batches;
	double spent;
	float *ns; /* per launch, of each batch */
};

static atomic_int enough;
static context main_context;
static function kernels[KERNELS];
static double end, launches_wanted;
static int batch, step_every, stepping = 1;

static void on_term(int signal)
{
	(void)signal;
	enough = 1;
}

static void *worker_main(void *argument)
{
	struct worker *w = argument;
	DO(cuCtxSetCurrent, main_context);
	while (!enough && (double)w->launches < launches_wanted && seconds() < end && w->batches < MAX_BATCHES) {
		double start = seconds();
		for (int i = 0; i < batch; i++)
			DO(cuLaunchKernel, kernels[EMPTY], 1, 1, 1, 32, 1, 1, 0, w->stream, NULL, NULL);
		double took = seconds() - start;
		DO(cuStreamSynchronize, w->stream);
		w->ns[w->batches++] = (float)(took * 1e9 / batch);
		w->spent += took;
		w->launches += (uint64_t)batch;
		if (w->number == 0 && stepping && w->batches % (uint64_t)step_every == 0) {
			step();
			w->steps++;
		}
	}
	return NULL;
}

static int ascending(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;
	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	static struct worker workers[MAX_THREADS];
	int threads = (int)number(argv, "threads", 1);
	device first;
	char name[128] = "";
	batch = (int)number(argv, "batch", 500);
	step_every = (int)number(argv, "step-every", 1);
	launches_wanted = number(argv, "launches", 1e12);
	for (int i = 1; i < argc; i++)
		stepping &= strcmp(argv[i], "--no-step") != 0;
	if (threads < 1 || threads > MAX_THREADS || batch < 1 || step_every < 1) {
		fprintf(stderr, "cuda_flood: 1 to %d threads, batches of at least 1\n", MAX_THREADS);
		return 2;
	}
	signal(SIGTERM, on_term);
	driver_open();
	DO(cuDeviceGet, &first, 0);
	DO(cuDevicePrimaryCtxRetain, &main_context, first);
	DO(cuCtxSetCurrent, main_context);
	DO(cuDeviceGetName, name, sizeof name, first);
	kernels_load(kernels);
	for (int t = 0; t < threads; t++) {
		workers[t].number = t;
		workers[t].ns = calloc(MAX_BATCHES, sizeof *workers[t].ns);
		if (!workers[t].ns)
			return 1;
		DO(cuStreamCreate, &workers[t].stream, STREAM_NON_BLOCKING);
		DO(cuLaunchKernel, kernels[EMPTY], 1, 1, 1, 32, 1, 1, 0, workers[t].stream, NULL, NULL);
		DO(cuStreamSynchronize, workers[t].stream);
	}
	double start = seconds();
	end = start + number(argv, "seconds", 2);
	for (int t = 1; t < threads; t++)
		pthread_create(&workers[t].thread, NULL, worker_main, &workers[t]);
	worker_main(&workers[0]);
	uint64_t launches = workers[0].launches;
	double spent = workers[0].spent;
	for (int t = 1; t < threads; t++) {
		pthread_join(workers[t].thread, NULL);
		launches += workers[t].launches;
		spent += workers[t].spent;
	}
	/* The first thread's batches stand for all. */
	qsort(workers[0].ns, workers[0].batches, sizeof *workers[0].ns, ascending);
	printf("{\"launches\": %llu, \"steps\": %llu, \"ns_mean\": %.1f, \"ns_median\": %.1f, \"ns_least\": %.1f, "
	       "\"seconds\": %.3f, \"device\": \"%s\"}\n",
	       (unsigned long long)launches, (unsigned long long)workers[0].steps,
	       launches ? spent * 1e9 / (double)launches : 0, (double)workers[0].ns[workers[0].batches / 2],
	       (double)workers[0].ns[0], seconds() - start, name);
	for (int t = 0; t < threads; t++)
		free(workers[t].ns);
	return 0;
}
