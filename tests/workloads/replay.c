/* replay.c - performs a recorded timeline (tests/replay/timeline.py describes the file) on the simulated CUDA
 * driver, in real time: one thread for each of the recording, its ranges and operators as NVTX ranges (operators in
 * the domain "operators"), its calls of the CUDA runtime, and what they launched, with the device times of the file.
 *
 *     replay --timeline=FILE [--speed=S] [--repeat=N] [--wait]
 *
 * Between two kernels time passes S times as fast. The whole file is played N times (1; 0: until SIGTERM), each time
 * at once, or with --wait after a SIGUSR1. Where the file has steps, all threads meet at the end of each, and the
 * thread that stepped in the recording calls profd_step(); "step N = K" then says that the process's N-th step was
 * the file's K-th. So each call lies in the step in which it was recorded, however late the machine is. Within a
 * step device times keep their distances; each step's begin is where it really began. At the end it prints one line
 * of JSON: what it launched, and what the driver counted. */
#include "workload.h"
#include "replay/device.h"
#include "replay/timeline.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include <nvtx3/nvToolsExt.h>

/* Nothing is waited for that comes sooner than this, ns: on a busy machine short sleeps are long ones. */
#define SLACK 60000u
/* Around the end of a step nothing happens for so long, ns: more than any clock's doubt. */
#define MARGIN 300000u

static volatile sig_atomic_t enough, asked;
static struct timeline timeline;
static double speed;
static int waiting;
static double plays_wanted;
static pthread_barrier_t barrier;
static nvtxDomainHandle_t operators;
static nvtxStringHandle_t *range_names, *operator_names;
/* Written by the leader between two barriers, read by all behind them. */
static uint64_t origin, from; /* CLOCK_MONOTONIC ns at which the replay's time was `from` */
static uint64_t plays, steps;
static int done;

static void on_signal(int number)
{
	if (number == SIGTERM)
		enough = 1;
	else
		asked = asked + 1;
}

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void sleep_until(uint64_t when)
{
	struct timespec t = {(time_t)(when / 1000000000u), (long)(when % 1000000000u)};
	while (!enough && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL))
		;
}

/* Waits for a time of the file. */
static void wait_for(uint64_t time)
{
	uint64_t when = origin + timeline_warp(&timeline, time, speed) - from;
	if (when > now() + SLACK)
		sleep_until(when);
}

static void push(nvtxDomainHandle_t domain, nvtxStringHandle_t name)
{
	nvtxEventAttributes_t attributes = {
		.version = NVTX_VERSION,
		.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
		.messageType = NVTX_MESSAGE_TYPE_REGISTERED,
		.message.registered = name,
	};
	if (domain)
		nvtxDomainRangePushEx(domain, &attributes);
	else
		nvtxRangePushEx(&attributes);
}

static void perform(const struct item *item)
{
	wait_for(item->start);
	switch (item->kind) {
	case '+':
		push(NULL, range_names[item->name]);
		break;
	case 'o':
		push(operators, operator_names[item->name]);
		break;
	case 'i':
		nvtxMarkA(timeline.strings[item->name]);
		break;
	case 'c':
		device_enter(timeline.strings[item->name]);
		device_launch(item, origin, from, speed);
		wait_for(item->end);
		device_leave(item->result);
		break;
	case 'd':
		device_launch(item, origin, from, speed);
		break;
	default:
		break;
	}
}

/* Performs from items[i] on until the step ends; where the next one goes on. Which pop is whose: the stack of domains. */
static size_t play_step(const struct thread *thread, size_t i, nvtxDomainHandle_t *stack, size_t *depth)
{
	for (; i < thread->count && thread->items[i].kind != '='; i++) {
		const struct item *item = &thread->items[i];
		perform(item);
		if (item->kind == '+' || item->kind == 'o') {
			stack[(*depth)++] = item->kind == 'o' ? operators : NULL;
		} else if (item->kind == '-') {
			nvtxDomainHandle_t domain = stack[--*depth];
			if (domain)
				nvtxDomainRangePop(domain);
			else
				nvtxRangePop();
		}
	}
	return i + (i < thread->count);
}

/* On the leader, while all others wait: ends step number `ordinal` (0-based). */
static void end_step(size_t ordinal)
{
	wait_for(timeline.steps[ordinal].end);
	usleep(MARGIN / 1000);
	step();
	printf("step %" PRIu64 " = %zu\n", ++steps, ordinal + 1);
	fflush(stdout);
	usleep(MARGIN / 1000);
	from = timeline_warp(&timeline, timeline.steps[ordinal].end, speed);
	origin = now();
}

/* On the leader, while all others wait: before each play. */
static void begin_play(void)
{
	while (waiting && !enough && asked <= (int)plays)
		usleep(2000);
	done = enough || (plays_wanted > 0 && (double)plays >= plays_wanted);
	from = 0;
	origin = now();
}

static void end_play(void)
{
	wait_for(timeline.end);
	printf("played %" PRIu64 "\n", ++plays);
	fflush(stdout);
}

static size_t depth_of(const struct thread *thread)
{
	size_t depth = 0;
	for (size_t i = 0; i < thread->count; i++)
		depth += thread->items[i].kind == '+' || thread->items[i].kind == 'o';
	return depth;
}

/* Closings have to match openings, so that the stack holds. */
static void check(const struct thread *thread, size_t index)
{
	size_t open = 0, ends = 0;
	for (size_t i = 0; i < thread->count; i++) {
		char kind = thread->items[i].kind;
		if (kind == '-' && !open--)
			fail("thread %zu closes what is not open", index);
		open += kind == '+' || kind == 'o';
		ends += kind == '=';
	}
	if (open || ends != timeline.step_count)
		fail("thread %zu leaves ranges open, or does not pass every step", index);
}

static void *run(void *argument)
{
	size_t index = (size_t)(uintptr_t)argument;
	const struct thread *thread = &timeline.threads[index];
	int leader = index == timeline.stepper;
	nvtxDomainHandle_t *stack = calloc(depth_of(thread) + 1, sizeof *stack);
	char name[16];
	if (!stack)
		fail("out of memory");
	snprintf(name, sizeof name, "replay %zu", index);
	prctl(PR_SET_NAME, name);
	prctl(PR_SET_TIMERSLACK, 1);
	nvtxNameOsThreadA((uint32_t)thread_id(), *thread->name ? thread->name : name);
	printf("thread %zu = %d\n", index, thread_id());
	fflush(stdout);
	for (;;) {
		size_t i = 0, depth = 0;
		pthread_barrier_wait(&barrier);
		if (leader)
			begin_play();
		pthread_barrier_wait(&barrier);
		if (done)
			break;
		for (size_t ordinal = 0; ordinal < timeline.step_count; ordinal++) {
			i = play_step(thread, i, stack, &depth);
			pthread_barrier_wait(&barrier);
			if (leader)
				end_step(ordinal);
			pthread_barrier_wait(&barrier);
		}
		play_step(thread, i, stack, &depth);
		pthread_barrier_wait(&barrier);
		if (leader)
			end_play();
	}
	free(stack);
	return NULL;
}

static void name_ranges(void)
{
	range_names = calloc(timeline.string_count, sizeof(nvtxStringHandle_t));
	operator_names = calloc(timeline.string_count, sizeof(nvtxStringHandle_t));
	if (!range_names || !operator_names)
		fail("out of memory");
	for (size_t t = 1; t < timeline.thread_count; t++) {
		for (size_t i = 0; i < timeline.threads[t].count; i++) {
			const struct item *item = &timeline.threads[t].items[i];
			const char *name = timeline.strings[item->name];
			if (item->kind == '+' && !range_names[item->name])
				range_names[item->name] = nvtxDomainRegisterStringA(NULL, name);
			else if (item->kind == 'o' && !operator_names[item->name])
				operator_names[item->name] = nvtxDomainRegisterStringA(operators, name);
		}
	}
}

int main(int argc, char **argv)
{
	const char *path = argument(argv, "timeline", NULL);
	uint64_t per_play[3] = {0};
	struct simcuda_counts counts;
	speed = number(argv, "speed", 1);
	plays_wanted = number(argv, "repeat", 1);
	for (int i = 1; i < argc; i++)
		waiting |= strcmp(argv[i], "--wait") == 0;
	if (!path || speed <= 0)
		fail("--timeline=FILE [--speed=S] [--repeat=N] [--wait]");
	timeline_read(&timeline, path);
	for (size_t i = 1; i < timeline.thread_count; i++)
		check(&timeline.threads[i], i);
	signal(SIGTERM, on_signal);
	signal(SIGUSR1, on_signal);
	operators = nvtxDomainCreateA("operators");
	name_ranges();
	device_open(&timeline);
	for (size_t i = 0; i < timeline.operation_count; i++)
		per_play[timeline.operations[i].kind == 'k' ? 0 : timeline.operations[i].kind == 'm' ? 1 : 2]++;

	size_t count = timeline.thread_count - 1;
	pthread_t *threads = calloc(count, sizeof *threads);
	if (!threads || pthread_barrier_init(&barrier, NULL, (unsigned)count))
		fail("out of memory");
	for (size_t i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, run, (void *)(uintptr_t)(i + 1)))
			fail("cannot make a thread");
	for (size_t i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	device_counts(&counts);
	printf("{\"plays\": %" PRIu64 ", \"steps\": %" PRIu64 ", \"launched\": {\"kernels\": %" PRIu64
	       ", \"copies\": %" PRIu64 ", \"sets\": %" PRIu64 "}, \"counted\": {\"kernels\": %" PRIu64
	       ", \"copies\": %" PRIu64 ", \"sets\": %" PRIu64 ", \"calls_runtime\": %" PRIu64 "}}\n",
	       plays, steps, plays * per_play[0], plays * per_play[1], plays * per_play[2], counts.kernels,
	       counts.copies, counts.sets, counts.calls_runtime);
	return 0;
}
