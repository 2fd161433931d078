/* cuda_switch.c - what becomes of a thread that launches without pause where CUPTI's kinds are switched on and off beside it.
 *
 *     cuda_switch --library=LIBCUPTI [--mode=sessions] [--kinds=K,K,...] [--sessions=N] [--hold=none|on|off|both]
 *     cuda_switch --library=LIBCUPTI --mode=cost [--kinds=K,K,...]
 *
 * K: numbers of CUpti_ActivityKind (17,36,38,1,22,2,10,4,5), switched on in this order and off in reverse.
 *
 * sessions: a thread launches an empty kernel again and again and waits for the stream after each 256. The main thread switches
 * the kinds on, waits 8 ms and for 64 launches, switches them off, and flushes; N times (200). --hold says at which of the two
 * the launching thread stands outside of all calls meanwhile (none). Prints a line of JSON: without_kernels, the sessions of
 * which fewer than half of the launches have a kernel's record; changes, how often a session differed in that from the one
 * before (the first from one with kernels); launches and kernels of all sessions; us that switching on and off took.
 *
 * cost: prints the median ns of a launch, of batches of 2000, before CUPTI is called, while it records, after that, and after
 * cuptiFinalize.
 *
 * An answer of CUPTI that is not 0 ends it with 3, and says which call's it is. Buffers are counted in threads of CUPTI's too. */
#include "tests/workloads/cuda/cupti.h"
#include "tests/workloads/cuda/driver.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
	BUFFER = 2 << 20,
	MOST_KINDS = 64,
	KIND_KERNEL = 3,
	KIND_CONCURRENT_KERNEL = 10,
	MAX_LIMIT_REACHED = 12, /* there is no further record */
};
enum { WAIT_EACH = 256, SESSION_MS = 8, LEAST_LAUNCHES = 64, BATCH = 2000, BATCHES = 9 };

#define ASK(name, ...)                                                                                                 \
	do {                                                                                                           \
		int answer_of_##name = cupti.name(__VA_ARGS__);                                                        \
		if (answer_of_##name)                                                                                  \
			fail(#name, answer_of_##name);                                                                 \
	} while (0)

static int kinds[MOST_KINDS], kind_count;
static const char *kinds_named;
static uint32_t version;
static char device_name[128];
static context main_context;
static function kernels[KERNELS];
static _Atomic uint64_t launched, waits, kernel_records;
static atomic_int stop, wanted, held; /* wanted: the launching thread is to stand outside of calls; held: it does */

struct spent {
	double sum, most; /* us */
};

/* ---- CUPTI */

static void requested(uint8_t **buffer, size_t *bytes, size_t *most_records)
{
	cupti_take(buffer, bytes, most_records, BUFFER);
}

static void completed(void *unused, uint32_t stream_number, uint8_t *buffer, size_t bytes, size_t valid)
{
	uint32_t *record = NULL;
	uint64_t found = 0;
	int answer = 0;
	(void)unused;
	(void)stream_number;
	(void)bytes;
	while (valid && (answer = cupti.cuptiActivityGetNextRecord(buffer, valid, &record)) == 0)
		found += *record == KIND_KERNEL || *record == KIND_CONCURRENT_KERNEL;
	if (answer && answer != MAX_LIMIT_REACHED)
		fail("cuptiActivityGetNextRecord", answer);
	atomic_fetch_add(&kernel_records, found);
	cupti_give_back(buffer);
}

static void load(const char *path)
{
	const char *wrong = cupti_load(path);
	if (wrong) {
		fprintf(stderr, "cuda_switch: %s\n", wrong);
		exit(4);
	}
}

static void begin(void)
{
	ASK(cuptiGetVersion, &version);
	ASK(cuptiActivityRegisterCallbacks, requested, completed);
}

static void check_switched(const char *call, int kind, int answer)
{
	char what[64];
	if (!answer)
		return;
	snprintf(what, sizeof what, "%s of kind %d", call, kind);
	fail(what, answer);
}

static void switch_kinds(int on, struct spent *spent)
{
	double start = seconds();
	for (int i = 0; on && i < kind_count; i++)
		check_switched("cuptiActivityEnable", kinds[i], cupti.cuptiActivityEnable(kinds[i]));
	for (int i = kind_count; !on && i > 0; i--)
		check_switched("cuptiActivityDisable", kinds[i - 1], cupti.cuptiActivityDisable(kinds[i - 1]));
	double took = (seconds() - start) * 1e6;
	spent->sum += took;
	spent->most = took > spent->most ? took : spent->most;
}

/* What is complete, and then what is not. */
static void flush(void)
{
	ASK(cuptiActivityFlushAll, 0);
	ASK(cuptiActivityFlushAll, 1);
}

/* ---- sessions */

static void launch(void)
{
	DO(cuLaunchKernel, kernels[EMPTY], 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
}

static void *launcher(void *unused)
{
	DO(cuCtxSetCurrent, main_context);
	for (uint64_t i = 1; !stop; i++) {
		launch();
		atomic_fetch_add_explicit(&launched, 1, memory_order_relaxed);
		if (i % WAIT_EACH == 0) {
			DO(cuStreamSynchronize, NULL);
			atomic_fetch_add(&waits, 1);
		}
		if (!wanted)
			continue;
		held = 1;
		while (wanted)
			nanosleep(&(struct timespec){0, 50000}, NULL);
		held = 0;
	}
	return unused;
}

static void set_held(int is)
{
	wanted = is;
	while (held != is)
		nanosleep(&(struct timespec){0, 50000}, NULL);
}

static void wait_for_more(_Atomic uint64_t *of, uint64_t more)
{
	for (uint64_t start = *of; *of - start < more;)
		nanosleep(&(struct timespec){0, 200000}, NULL);
}

/* Returns how many launches there were after switching on, or before switching off. */
static uint64_t switch_beside(int on, int outside, struct spent *spent)
{
	if (outside)
		set_held(1);
	uint64_t before = launched;
	switch_kinds(on, spent);
	uint64_t after = launched;
	if (outside)
		set_held(0);
	return on ? after : before;
}

struct seen {
	uint64_t launches, kernels;
	int was_without, without, changes;
	struct spent on, off;
};

static void session(int hold_on, int hold_off, struct seen *all)
{
	kernel_records = 0;
	uint64_t before = switch_beside(1, hold_on, &all->on);
	nanosleep(&(struct timespec){0, SESSION_MS * 1000000}, NULL);
	wait_for_more(&launched, LEAST_LAUNCHES);
	uint64_t launches = switch_beside(0, hold_off, &all->off) - before;
	/* The first may have begun before the last launch of the session. */
	wait_for_more(&waits, 2);
	flush();
	int without = kernel_records * 2 < launches;
	all->without += without;
	all->changes += without != all->was_without;
	all->was_without = without;
	all->launches += launches;
	all->kernels += kernel_records;
}

static void sessions(int count, const char *held_at)
{
	int both = strcmp(held_at, "both") == 0;
	int hold_on = both || strcmp(held_at, "on") == 0, hold_off = both || strcmp(held_at, "off") == 0;
	struct seen all = {0};
	pthread_t thread;
	begin();
	int error = pthread_create(&thread, NULL, launcher, NULL);
	if (error)
		fail("pthread_create", error);
	wait_for_more(&waits, 1);
	for (int s = 0; s < count; s++)
		session(hold_on, hold_off, &all);
	stop = 1;
	pthread_join(thread, NULL);
	printf("{\"mode\": \"sessions\", \"kinds\": \"%s\", \"hold\": \"%s\", \"sessions\": %d, \"without_kernels\": %d, "
	       "\"changes\": %d, \"launches\": %llu, \"kernels\": %llu, \"on_us_mean\": %.1f, \"on_us_most\": %.1f, "
	       "\"off_us_mean\": %.1f, \"off_us_most\": %.1f, ",
	       kinds_named, held_at, count, all.without, all.changes, (unsigned long long)all.launches,
	       (unsigned long long)all.kernels, all.on.sum / count, all.on.most, all.off.sum / count, all.off.most);
}

/* ---- cost */

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double launch_ns(void)
{
	double ns[BATCHES];
	for (int b = 0; b < BATCHES; b++) {
		double start = seconds();
		for (int i = 0; i < BATCH; i++)
			launch();
		ns[b] = (seconds() - start) * 1e9 / BATCH;
		DO(cuStreamSynchronize, NULL);
	}
	qsort(ns, BATCHES, sizeof ns[0], ascending);
	return ns[BATCHES / 2];
}

static void cost(void)
{
	struct spent on = {0, 0}, off = {0, 0};
	launch_ns();
	double before = launch_ns();
	begin();
	switch_kinds(1, &on);
	double during = launch_ns();
	switch_kinds(0, &off);
	flush();
	double after = launch_ns();
	ASK(cuptiFinalize);
	double finalized = launch_ns();
	printf("{\"mode\": \"cost\", \"kinds\": \"%s\", \"kernels\": %llu, \"ns_before\": %.1f, \"ns_during\": %.1f, "
	       "\"ns_after\": %.1f, \"ns_finalized\": %.1f, ",
	       kinds_named, (unsigned long long)kernel_records, before, during, after, finalized);
}

static int is_one_of(const char *word, const char *const *words)
{
	while (*words && strcmp(*words, word) != 0)
		words++;
	return *words != NULL;
}

static int read_kinds(const char *text)
{
	for (const char *at = text; *at && kind_count < MOST_KINDS;) {
		char *end;
		kinds[kind_count++] = (int)strtol(at, &end, 10);
		if (end == at || (*end && *end != ','))
			return 0;
		at = *end ? end + 1 : end;
	}
	return kind_count > 0;
}

int main(int argc, char **argv)
{
	const char *library = argument(argv, "library", NULL), *mode = argument(argv, "mode", "sessions");
	const char *held_at = argument(argv, "hold", "none");
	int count = (int)number(argv, "sessions", 200);
	device first;
	(void)argc;
	kinds_named = argument(argv, "kinds", "17,36,38,1,22,2,10,4,5");
	if (!library || !is_one_of(mode, (const char *const[]){"sessions", "cost", NULL}) || count < 1 ||
	    !is_one_of(held_at, (const char *const[]){"none", "on", "off", "both", NULL}) || !read_kinds(kinds_named)) {
		fprintf(stderr,
			"cuda_switch: --library=LIBCUPTI, --mode=sessions or cost, --hold=none, on, off or both\n");
		return 2;
	}
	driver_open();
	DO(cuDeviceGet, &first, 0);
	DO(cuDevicePrimaryCtxRetain, &main_context, first);
	DO(cuCtxSetCurrent, main_context);
	DO(cuDeviceGetName, device_name, sizeof device_name, first);
	kernels_load(kernels);
	load(library);
	if (strcmp(mode, "cost") == 0)
		cost();
	else
		sessions(count, held_at);
	printf("\"version\": %u, \"device\": \"%s\"}\n", version, device_name);
	return 0;
}
