/* cuda_exits.c - a process with work on its GPU that ends, or changes, in every way there is.
 *
 *     cuda_exits --mode=M [--after=N] [--kernels=K] [--duration-us=D] [--step-ms=T] [--code=C]
 *
 * Makes N (5) steps of K (4) kernels (spin D us, 200, and others) and a copy and a set of 4096 bytes, each waited for; then, with
 * K spins and a copy under way, does M:
 *   exit      exit(C)                            _exit     _exit(C)
 *   return    returns C from main                abort     abort()
 *   signal    dies of SIGTERM                    exec      execs itself with --mode=return
 *   fork      forks a child that calls the driver (which has to refuse), steps N times without a GPU and exits; goes on for N
 *   clone     the same by a raw clone
 *   destroy   destroys its context, makes another, goes on for N
 *   reset     resets the device, takes its primary context again, goes on for N
 *   error     launches a kernel that traps: every call fails from then on, and the program goes on stepping N times
 *   threads   goes on for N steps of which each is made by a thread of its own, which ends; four more launch meanwhile
 *   thread    the main thread leaves by pthread_exit, another goes on for N and exits
 *   midstep   a second thread calls exit(C) while the first one launches
 * Prints a line of JSON before it ends: mode, steps, total, by_name and calls as cuda_steps (of what was launched; of mode
 * error: launched without an error), failed (calls that answered an error), first_error, child_status (-1: none), child_call
 * (what the child's call answered), wrong, pid. */
#include "tests/workloads/cuda/tally.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { BYTES = 4096, HELPERS = 4 };

static const char trap_ptx[] = ".version 6.4\n"
			       ".target sm_52\n"
			       ".address_size 64\n"
			       ".visible .entry trap()\n"
			       "{\n"
			       "	trap;\n"
			       "	ret;\n"
			       "}\n";

static long after, stepped;
static int kernels_per_step, code;
static uint64_t ns;
static double step_time;
static context current;
static device gpu;
static function kernels[KERNELS];
static stream own;
static int own_index;
static address memory;
static unsigned *pinned;
static struct tally total;
static uint64_t failed, wrong;
static result first_error;
static atomic_int helpers_over;
static int child_call = -1;

/* Notes an error. */
static int good(result error)
{
	if (!error)
		return 1;
	failed++;
	if (!first_error)
		first_error = error;
	return 0;
}

static void launch(int kind, uint64_t wait)
{
	if (good(kernel_launch(kernels[kind], wait, own)))
		total.kernels[kind][own_index]++;
}

static void copy(enum copy kind, result error)
{
	if (good(error)) {
		total.copies[kind]++;
		total.copy_bytes[kind] += BYTES;
	}
}

/* A context's own things. */
static void prepare(void)
{
	DO(cuCtxSetCurrent, current);
	kernels_load(kernels);
	DO(cuStreamCreate, &own, STREAM_NON_BLOCKING);
	own_index = streams_add(own);
	DO(cuMemAlloc, &memory, BYTES);
	DO(cuMemHostAlloc, (void **)&pinned, BYTES, 0);
}

static void one_step(void)
{
	for (int k = 0; k < kernels_per_step; k++)
		launch(k % KERNELS, ns);
	unsigned value = (unsigned)stepped + 1;
	if (good(TRY(cuMemsetD32Async, memory, value, BYTES / 4, own))) {
		total.sets++;
		total.set_bytes += BYTES;
	}
	copy(DTOH, TRY(cuMemcpyDtoHAsync, pinned, memory, BYTES, own));
	if (good(TRY(cuStreamSynchronize, own)))
		wrong += pinned[0] != value || pinned[BYTES / 4 - 1] != value;
}

static void steps(long n)
{
	double next = seconds();
	for (long i = 0; i < n; i++) {
		if (stepped == HELD)
			hold();
		one_step();
		wait_period(&next, step_time);
		step();
		stepped++;
	}
}

/* What is under way when it happens: 50 ms of kernels and a copy. */
static void begin_work(void)
{
	for (int k = 0; k < 10; k++)
		launch(SPIN, 5000000);
	copy(HTOD, TRY(cuMemcpyHtoDAsync, memory, pinned, BYTES, own));
}

/* Adds this thread's calls to all. */
static void calls_add(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	pthread_mutex_lock(&lock);
	for (int c = 0; c < CALLS; c++)
		total.calls[c] += calls[c];
	memset(calls, 0, sizeof calls);
	pthread_mutex_unlock(&lock);
}

static void report(const char *mode, int child)
{
	calls_add();
	printf("{\"mode\": \"%s\", \"steps\": %ld, \"total\": {", mode, stepped);
	tally_print_counts(&total);
	printf("}, ");
	tally_print_details(&total);
	printf(", \"failed\": %llu, \"first_error\": %d, \"child_status\": %d, \"child_call\": %d, \"wrong\": %llu, "
	       "\"pid\": "
	       "%d}\n",
	       (unsigned long long)failed, first_error, child, child_call, (unsigned long long)wrong, (int)getpid());
	fflush(stdout);
}

static int child_of(int by_clone)
{
	int status = -1, answers[2] = {-1, -1};
	if (pipe(answers))
		return -1;
	fflush(stdout);
	pid_t pid = by_clone ? (pid_t)syscall(SYS_clone, (unsigned long)SIGCHLD, NULL, NULL, NULL, 0UL) : fork();
	if (pid == 0) {
		result answer = driver.cuCtxSynchronize();
		double next = seconds();
		for (long i = 0; i < after; i++) {
			wait_period(&next, step_time);
			step();
		}
		ssize_t written = write(answers[1], &answer, sizeof answer);
		_exit(answer != 0 && written == sizeof answer ? 0 : 1);
	}
	steps(after);
	if (pid > 0 && waitpid(pid, &status, 0) == pid && read(answers[0], &child_call, sizeof child_call) < 0)
		status = -1;
	close(answers[0]);
	close(answers[1]);
	return status;
}

static void *thread_helps(void *unused)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	stream mine;
	uint64_t launched = 0;
	DO(cuCtxSetCurrent, current);
	DO(cuStreamCreate, &mine, STREAM_NON_BLOCKING);
	pthread_mutex_lock(&lock);
	int index = streams_add(mine);
	pthread_mutex_unlock(&lock);
	while (!helpers_over) {
		DO(cuLaunchKernel, kernels[EMPTY], 1, 1, 1, 32, 1, 1, 0, mine, NULL, NULL);
		launched++;
		usleep(500);
	}
	pthread_mutex_lock(&lock);
	total.kernels[EMPTY][index] += launched;
	pthread_mutex_unlock(&lock);
	calls_add();
	return unused;
}

static void *thread_steps(void *unused)
{
	DO(cuCtxSetCurrent, current);
	one_step();
	calls_add();
	return unused;
}

static void many_threads(void)
{
	pthread_t helpers[HELPERS], one;
	for (int h = 0; h < HELPERS; h++)
		pthread_create(&helpers[h], NULL, thread_helps, NULL);
	double next = seconds();
	for (long i = 0; i < after; i++) {
		pthread_create(&one, NULL, thread_steps, NULL);
		pthread_join(one, NULL);
		wait_period(&next, step_time);
		step();
		stepped++;
	}
	helpers_over = 1;
	for (int h = 0; h < HELPERS; h++)
		pthread_join(helpers[h], NULL);
}

static void *thread_ends(void *unused)
{
	(void)unused;
	DO(cuCtxSetCurrent, current);
	steps(after);
	report("thread", -1);
	exit(code);
}

static void *thread_exits(void *unused)
{
	(void)unused;
	usleep(20000);
	exit(code);
}

static void trap(void)
{
	module loaded;
	function kernel;
	DO(cuModuleLoadData, &loaded, trap_ptx);
	DO(cuModuleGetFunction, &kernel, loaded, "trap");
	good(TRY(cuLaunchKernel, kernel, 1, 1, 1, 1, 1, 1, 0, own, NULL, NULL));
	good(TRY(cuStreamSynchronize, own));
	steps(after);
}

static void change(const char *mode)
{
	if (strcmp(mode, "destroy") == 0) {
		DO(cuCtxDestroy, current);
		DO(cuCtxCreate, &current, 0, gpu);
	} else {
		DO(cuDevicePrimaryCtxReset, gpu);
		DO(cuDevicePrimaryCtxRetain, &current, gpu);
	}
	prepare();
	steps(after);
}

int main(int argc, char **argv)
{
	const char *mode = argument(argv, "mode", "return");
	int is_destroy = strcmp(mode, "destroy") == 0, child = -1;
	pthread_t thread;
	(void)argc;
	after = (long)number(argv, "after", 5);
	kernels_per_step = (int)number(argv, "kernels", 4);
	ns = (uint64_t)(number(argv, "duration-us", 200) * 1000);
	step_time = number(argv, "step-ms", 5) * 1e-3;
	code = (int)number(argv, "code", 0);
	driver_open();
	DO(cuDeviceGet, &gpu, 0);
	if (is_destroy)
		DO(cuCtxCreate, &current, 0, gpu);
	else
		DO(cuDevicePrimaryCtxRetain, &current, gpu);
	prepare();
	steps(after);
	if (strcmp(mode, "thread") == 0) {
		calls_add();
		pthread_create(&thread, NULL, thread_ends, NULL);
		pthread_exit(NULL);
	}
	begin_work();
	if (is_destroy || strcmp(mode, "reset") == 0)
		change(mode);
	else if (strcmp(mode, "fork") == 0 || strcmp(mode, "clone") == 0)
		child = child_of(strcmp(mode, "clone") == 0);
	else if (strcmp(mode, "error") == 0)
		trap();
	else if (strcmp(mode, "threads") == 0)
		many_threads();
	report(mode, child);
	if (strcmp(mode, "exit") == 0)
		exit(code);
	if (strcmp(mode, "_exit") == 0)
		_exit(code);
	if (strcmp(mode, "abort") == 0)
		abort();
	if (strcmp(mode, "signal") == 0)
		raise(SIGTERM);
	if (strcmp(mode, "exec") == 0) {
		execl("/proc/self/exe", argv[0], "--mode=return", (char *)NULL);
		return 126;
	}
	if (strcmp(mode, "midstep") == 0) {
		pthread_create(&thread, NULL, thread_exits, NULL);
		for (;;) /* the other thread ends it */
			one_step();
	}
	return wrong ? 1 : code;
}
