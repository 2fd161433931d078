/* cuda_steps.c - steps of GPU work on the CUDA driver API, counted exactly.
 *
 *     cuda_steps [--steps=N] [--seconds=T] [--rate=R] [--kernels=K] [--streams=S] [--threads=T] [--duration-us=D]
 *                [--copies=C] [--copy-bytes=B] [--sets=M] [--async-alloc=A] [--graph=N] [--child=N] [--peer] [--sync=W]
 *                [--no-wait] [--every=E] [--lines] [--no-step] [--runtime] [--load]
 *
 * Every step each of T threads (1) opens the NVTX range "step", and in "kernels" launches K kernels (4) on each of its S
 * streams (1), by turns of each kind, spin for D us (20); in "copies" C copies (1) of B bytes (4096) of each kind on its first
 * stream and M sets (1); A times (0) memory taken and given back in stream order; a captured graph of N kernels, one set and
 * one copy (0: none), of which a child graph holds --child more kernels; with --peer a copy to a second device. It ends with
 * waiting for its streams (--sync=stream), an event of each (event), or the context (context); or, with --no-wait, without:
 * then work of one step runs into the next ones, and what was copied is not checked; --every=E: only each E-th step has
 * kernels. With --load it loads a module and instantiates a graph in each step. With --runtime, on the simulated driver alone, each launch of a kernel and each wait for a stream lies in a call of
 * the CUDA runtime, as most programs have it. The step ends when all threads have come
 * so far. R steps a second (0: as fast as it goes), until N (1e12), T seconds or SIGTERM; after SIGUSR2 at a
 * thousand. Thread 0 is the main thread.
 *
 * Prints a line of JSON at the end: steps, per_step and total (kernels, copies by kind with bytes, sets), by_name (kernels of
 * all steps by name and index of the stream), stream_ids (as records show them; 0 unknown; index 0 is the default stream),
 * calls (of all steps, by name), graphs (launches of one in a step), wrong (results that were not as they should be), device, driver; --lines: one a step before. */
#include "tests/workloads/cuda/tally.h"
#include "tests/workloads/cuda/ranges.h"
#include "tests/sim/simcuda.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

enum { STREAMS_OF_THREAD = 16, MAX_THREADS = 512 };

static struct options {
	int kernels, streams, threads, copies, sets, async_alloc, graph, child, peer, wait, lines, stepping, every,
		runtime, load;
	const char *sync;
	size_t bytes;
	uint64_t ns;
} options;

struct worker {
	pthread_t thread;
	int number, stream_count, stream_index[STREAMS_OF_THREAD];
	stream streams[STREAMS_OF_THREAD];
	event events[STREAMS_OF_THREAD];
	unsigned *pinned;      /* 2 * bytes: what goes to the device, what comes back */
	address memory, other; /* bytes each */
	address graph_memory, peer_memory;
	graph_exec executable;
	struct tally graph_tally, tally; /* of one launch; of this step */
	uint64_t wrong, step;
};

static atomic_int enough, hurried;
static pthread_barrier_t begins, ends;
static int over;
static context main_context, peer_context;
static function kernels[KERNELS];

static void on_term(int signal)
{
	(void)signal;
	enough = 1;
}

static void on_usr2(int signal)
{
	(void)signal;
	hurried = 1;
}

/* The simulator's, where the program is to look like one that uses the CUDA runtime; else nothing is called. */
static simcuda_runtime_enter_fn *runtime_enter;
static simcuda_runtime_leave_fn *runtime_leave;

static void begin_runtime_call(const char *name)
{
	if (runtime_enter)
		runtime_enter(name, 0, 0);
}

static void end_runtime_call(void)
{
	if (runtime_leave)
		runtime_leave(0, 0);
}

static void launch(struct worker *w, int kind, int s)
{
	begin_runtime_call("cudaLaunchKernel");
	result error = kernel_launch(kernels[kind], options.ns, w->streams[s]);
	end_runtime_call();
	if (error)
		fail("cuLaunchKernel", error);
	w->tally.kernels[kind][w->stream_index[s]]++;
}

static void count_copy(struct worker *w, enum copy kind)
{
	w->tally.copies[kind]++;
	w->tally.copy_bytes[kind] += options.bytes;
}

static void copies(struct worker *w)
{
	unsigned value = (unsigned)(w->step * 7919 + (unsigned)w->number);
	size_t words = options.bytes / sizeof value;
	for (int i = 0; i < options.copies; i++) {
		if (options.wait)
			w->pinned[0] = w->pinned[words - 1] = value + (unsigned)i;
		DO(cuMemcpyHtoDAsync, w->memory, w->pinned, options.bytes, w->streams[0]);
		DO(cuMemcpyDtoDAsync, w->other, w->memory, options.bytes, w->streams[0]);
		DO(cuMemcpyDtoHAsync, w->pinned + words, w->other, options.bytes, w->streams[0]);
		count_copy(w, HTOD);
		count_copy(w, DTOD);
		count_copy(w, DTOH);
		/* What comes next would overwrite what this one has to read. */
		if (options.wait && i + 1 < options.copies)
			DO(cuStreamSynchronize, w->streams[0]);
	}
	for (int i = 0; i < options.sets; i++) {
		DO(cuMemsetD32Async, w->memory, value, words, w->streams[0]);
		w->tally.sets++;
		w->tally.set_bytes += words * sizeof value;
	}
	if (options.peer) {
		DO(cuMemcpyPeerAsync, w->peer_memory, peer_context, w->memory, main_context, options.bytes,
		   w->streams[0]);
		count_copy(w, PTOP);
	}
}

static void check(struct worker *w)
{
	unsigned value = (unsigned)(w->step * 7919 + (unsigned)w->number) + (unsigned)options.copies - 1;
	size_t words = options.bytes / sizeof value;
	if (options.copies && (w->pinned[words] != value || w->pinned[2 * words - 1] != value))
		w->wrong++;
}

static void wait_for_work(struct worker *w)
{
	if (strcmp(options.sync, "context") == 0) {
		DO(cuCtxSynchronize);
		return;
	}
	for (int s = 0; s < w->stream_count; s++) {
		if (strcmp(options.sync, "event") == 0) {
			DO(cuEventRecord, w->events[s], w->streams[s]);
			DO(cuEventSynchronize, w->events[s]);
		} else {
			begin_runtime_call("cudaStreamSynchronize");
			DO(cuStreamSynchronize, w->streams[s]);
			end_runtime_call();
		}
	}
}

static void one_step(struct worker *w)
{
	memset(&w->tally, 0, sizeof w->tally);
	memset(calls, 0, sizeof calls);
	nvtxRangePushA("step");
	nvtxRangePushA("kernels");
	for (int k = 0; k < options.kernels && w->step % (uint64_t)options.every == 0; k++)
		for (int s = 0; s < w->stream_count; s++)
			launch(w, k % KERNELS, s);
	nvtxRangePop();
	nvtxRangePushA("copies");
	copies(w);
	nvtxRangePop();
	for (int i = 0; i < options.async_alloc; i++) {
		address at;
		DO(cuMemAllocAsync, &at, options.bytes, w->streams[0]);
		DO(cuMemFreeAsync, at, w->streams[0]);
	}
	if (options.load)
		code_load();
	if (w->executable) {
		DO(cuGraphLaunch, w->executable, w->streams[0]);
		tally_add(&w->tally, &w->graph_tally);
	}
	if (options.wait) {
		wait_for_work(w);
		check(w);
	}
	nvtxRangePop();
	memcpy(w->tally.calls, calls, sizeof calls);
	w->step++;
}

/* A graph of N kernels in a row by capture, or with --child the same with a child graph of more of them. */
static void make_graph(struct worker *w)
{
	graph made, child;
	graph_node node, child_node;
	DO(cuStreamBeginCapture, w->streams[0], CAPTURE_RELAXED);
	for (int i = 0; i < options.graph; i++)
		launch(w, i % KERNELS, 0);
	DO(cuMemsetD8Async, w->graph_memory, 1, options.bytes, w->streams[0]);
	DO(cuMemcpyDtoDAsync, w->other, w->graph_memory, options.bytes, w->streams[0]);
	DO(cuStreamEndCapture, w->streams[0], &made);
	w->tally.sets++;
	w->tally.set_bytes += options.bytes;
	count_copy(w, DTOD);
	if (options.child) {
		void *no_parameters[] = {NULL};
		struct kernel_node empty = {kernels[EMPTY], {1, 1, 1}, {32, 1, 1}, 0, no_parameters, NULL};
		DO(cuGraphCreate, &child, 0);
		for (int i = 0; i < options.child; i++)
			DO(cuGraphAddKernelNode, &node, child, NULL, 0, &empty);
		DO(cuGraphAddChildGraphNode, &child_node, made, NULL, 0, child);
		DO(cuGraphDestroy, child);
		w->tally.kernels[EMPTY][w->stream_index[0]] += (uint64_t)options.child;
	}
	DO(cuGraphInstantiate, &w->executable, made, NULL, NULL, 0);
	DO(cuGraphDestroy, made);
	w->graph_tally = w->tally;
	memset(w->graph_tally.calls, 0, sizeof w->graph_tally.calls);
	memset(&w->tally, 0, sizeof w->tally);
}

/* On the main thread, in the main context. */
static void prepare(struct worker *w, int number)
{
	w->number = number;
	w->stream_count = options.streams;
	for (int s = 0; s < w->stream_count; s++) {
		DO(cuStreamCreate, &w->streams[s], STREAM_NON_BLOCKING);
		DO(cuEventCreate, &w->events[s], 0);
		w->stream_index[s] = streams_add(w->streams[s]);
	}
	DO(cuMemHostAlloc, (void **)&w->pinned, 2 * options.bytes, 0);
	memset(w->pinned, 0, 2 * options.bytes);
	DO(cuMemAlloc, &w->memory, options.bytes);
	DO(cuMemAlloc, &w->other, options.bytes);
	DO(cuMemAlloc, &w->graph_memory, options.bytes);
	if (options.peer) {
		DO(cuCtxSetCurrent, peer_context);
		DO(cuMemAlloc, &w->peer_memory, options.bytes);
		DO(cuCtxSetCurrent, main_context);
	}
	if (options.graph)
		make_graph(w);
}

static void *worker_main(void *argument)
{
	struct worker *w = argument;
	DO(cuCtxSetCurrent, main_context);
	for (;;) {
		pthread_barrier_wait(&begins);
		if (over)
			return NULL;
		one_step(w);
		pthread_barrier_wait(&ends);
	}
}

static void read_options(char **argv)
{
	options = (struct options){.kernels = (int)number(argv, "kernels", 4),
				   .streams = (int)number(argv, "streams", 1),
				   .threads = (int)number(argv, "threads", 1),
				   .copies = (int)number(argv, "copies", 1),
				   .sets = (int)number(argv, "sets", 1),
				   .async_alloc = (int)number(argv, "async-alloc", 0),
				   .graph = (int)number(argv, "graph", 0),
				   .child = (int)number(argv, "child", 0),
				   .wait = 1,
				   .every = (int)number(argv, "every", 1),
				   .stepping = 1,
				   .sync = argument(argv, "sync", "stream"),
				   .bytes = (size_t)number(argv, "copy-bytes", 4096) & ~(size_t)3,
				   .ns = (uint64_t)(number(argv, "duration-us", 20) * 1000)};
	for (char **a = argv + 1; *a; a++) {
		options.peer |= strcmp(*a, "--peer") == 0;
		options.lines |= strcmp(*a, "--lines") == 0;
		options.runtime |= strcmp(*a, "--runtime") == 0;
		options.load |= strcmp(*a, "--load") == 0;
		options.wait &= strcmp(*a, "--no-wait") != 0;
		options.stepping &= strcmp(*a, "--no-step") != 0;
	}
	if (options.streams < 1 || options.streams > STREAMS_OF_THREAD || options.threads < 1 ||
	    options.threads > MAX_THREADS || options.bytes < 8) {
		fprintf(stderr, "cuda_steps: 1 to %d streams, 1 to %d threads, at least 8 bytes\n", STREAMS_OF_THREAD,
			MAX_THREADS);
		exit(2);
	}
}

static void open_devices(void)
{
	device first, second;
	int count;
	driver_open();
	if (options.runtime) {
		void *simulated = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
		*(void **)&runtime_enter = dlsym(simulated, "simcuda_runtime_enter");
		*(void **)&runtime_leave = dlsym(simulated, "simcuda_runtime_leave");
	}
	/* The first range makes NVTX look for who collects it: before there are threads. */
	nvtxRangePushA("prepare");
	nvtxRangePop();
	DO(cuDeviceGet, &first, 0);
	if (options.peer) {
		DO(cuDeviceGetCount, &count);
		if (count < 2) {
			fprintf(stderr, "--peer: there is one device only\n");
			exit(77);
		}
		DO(cuDeviceGet, &second, 1);
		DO(cuCtxCreate, &peer_context, 0, second);
	}
	DO(cuDevicePrimaryCtxRetain, &main_context, first);
	DO(cuCtxSetCurrent, main_context);
	if (options.peer)
		DO(cuCtxEnablePeerAccess, peer_context, 0);
	kernels_load(kernels);
}

static void report(const struct tally *step_tally, const struct tally *total, uint64_t n, uint64_t wrong)
{
	char name[128] = "";
	int version = 0;
	DO(cuDeviceGetName, name, sizeof name, 0);
	DO(cuDriverGetVersion, &version);
	printf("{\"steps\": %llu, \"per_step\": {", (unsigned long long)n);
	tally_print_counts(step_tally);
	printf("}, \"total\": {");
	tally_print_counts(total);
	printf("}, ");
	tally_print_details(total);
	printf(", \"graphs\": %d, \"wrong\": %llu, \"device\": \"%s\", \"driver\": %d, \"pid\": %d}\n",
	       options.graph ? options.threads : 0, (unsigned long long)wrong, name, version, (int)getpid());
	fflush(stdout);
}

int main(int argc, char **argv)
{
	(void)argc;
	static struct worker workers[MAX_THREADS];
	static struct tally step_tally, total;
	read_options(argv);
	signal(SIGTERM, on_term);
	signal(SIGUSR2, on_usr2);
	double steps = number(argv, "steps", 1e12), rate = number(argv, "rate", 0);
	double end = seconds() + number(argv, "seconds", 1e9), next = seconds();
	uint64_t n = 0, wrong = 0;
	open_devices();
	for (int t = 0; t < options.threads; t++)
		prepare(&workers[t], t);
	pthread_barrier_init(&begins, NULL, (unsigned)options.threads);
	pthread_barrier_init(&ends, NULL, (unsigned)options.threads);
	for (int t = 1; t < options.threads; t++)
		pthread_create(&workers[t].thread, NULL, worker_main, &workers[t]);
	while (((double)n < steps || stays()) && !enough && seconds() < end) {
		int counts = (double)n < steps;
		pthread_barrier_wait(&begins);
		one_step(&workers[0]);
		pthread_barrier_wait(&ends);
		memset(&step_tally, 0, sizeof step_tally);
		for (int t = 0; t < options.threads; t++)
			tally_add(&step_tally, &workers[t].tally);
		if (counts)
			tally_add(&total, &step_tally);
		if (rate > 0)
			wait_period(&next, hurried ? 1e-3 : 1 / rate);
		if (options.lines) {
			printf("{\"step\": %llu, ", (unsigned long long)n);
			tally_print_counts(&step_tally);
			printf("}\n");
			fflush(stdout);
		}
		if (options.stepping)
			step();
		n += (uint64_t)counts;
	}
	over = 1;
	pthread_barrier_wait(&begins);
	for (int t = 1; t < options.threads; t++)
		pthread_join(workers[t].thread, NULL);
	DO(cuCtxSynchronize);
	for (int t = 0; t < options.threads; t++)
		wrong += workers[t].wrong;
	report(&step_tally, &total, n, wrong);
	return wrong != 0;
}
