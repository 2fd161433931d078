/* feed.c - a driver of its own for the simulated CUPTI, which does what the words of its command line say and prints what comes
 * out: `feed LIBRARY WORD...`. The records' fields are read at offsets that all releases share, so nothing here depends on
 * headers of CUDA. Words:
 *
 *   up                      the driver is initialised
 *   register BYTES MAX      buffer callbacks; buffers of so many bytes and records (0: any)
 *   enable K, dump K, disable K         cuptiActivityEnable, EnableAndDump, Disable
 *   self                                         prints the calling thread's two ids
 *   attribute A V, thread_id T, call NAME N       SetAttribute (one byte), SetThreadIdType, any function of one number
 *   kernel N, copy N, peer N, set N, sync N, event N     so many, each in a call and finished at once
 *   memory                  an allocation, its end, and one from a pool
 *   instantiate             the graph of `graph` is made
 *   graph N                 one launch of N nodes
 *   inside K ON             one launch of a kernel in whose call of the driver kind K is enabled (1) or disabled (0)
 *   peek BYTES              kinds of the records, each so long, in the first buffer that CUPTI has, as they lie there
 *   begin N                 so many kernels that do not finish; finish: now they do
 *   threads T N             T threads launch N kernels each
 *   flush F, sleep MS, refuse, accept, dropped, version, time, push ID, pop, finalize
 *   dirty, odd, flushing    from now on buffers are not zeroed, not aligned; a flush in the callback for a completed one
 *   subscribe, multiple     as the only subscriber, or as one of several; of all API calls
 *
 * Output, a line each: "call NAME RESULT", "buffer USED THREAD", "record KIND SIZE FIELD=VALUE...", and what is asked for. */
#include "tests/sim/observer.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

simcuda_observe_fn simcuda_observe;
simcuda_dump_fn simcuda_dump;

enum { PENDING_MAX = 4096, GIVEN_MAX = 1024, GRAPH = 3 };

static void *library;
static bool up;
static const struct sim_observer *watcher;
static bool refusing, dirty, odd, flushing;
static uint8_t *given[GIVEN_MAX]; /* buffers that CUPTI has */
static size_t buffer_bytes, buffer_records;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_operation pending[PENDING_MAX];
static size_t pending_count;
static uint32_t correlations;
static uint64_t operations;

int simcuda_observe(const struct sim_observer *observer)
{
	__atomic_store_n(&watcher, observer, __ATOMIC_RELEASE);
	return up ? 0 : -1;
}

static const struct sim_observer *observer(void)
{
	return __atomic_load_n(&watcher, __ATOMIC_ACQUIRE);
}

void simcuda_dump(void (*fn)(const struct sim_device *device))
{
	const struct sim_device device = {
		.id = 0, .name = "Simulated Feed", .memory = 1u << 30, .multiprocessors = 4, .warp = 32};
	const struct sim_context context = {.id = 1, .default_stream = 7};
	const struct sim_stream stream = {.id = 7, .context = 1};
	fn(&device);
	observer()->context(&context, 1);
	observer()->stream(&stream, 1);
}

static uint64_t now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void *find(const char *name)
{
	return dlsym(library, name);
}

#define FUNCTION(type, name, found)                                                                                    \
	type name;                                                                                                     \
	do {                                                                                                           \
		void *address = find(found);                                                                           \
		if (!address) {                                                                                        \
			printf("call %s absent\n", found);                                                             \
			return;                                                                                        \
		}                                                                                                      \
		memcpy(&name, &address, sizeof name);                                                                  \
	} while (0)

typedef int one_number(uint32_t number);

static void call_number(const char *name, uint32_t number)
{
	FUNCTION(one_number *, function, name);
	printf("call %s %d\n", name, function(number));
	fflush(stdout);
}

static void requested(uint8_t **buffer, size_t *size, size_t *records)
{
	*buffer = refusing ? NULL : malloc(buffer_bytes + 8);
	*size = *buffer ? buffer_bytes : 0;
	*records = buffer_records;
	if (!*buffer)
		return;
	memset(*buffer, dirty, *size);
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < GIVEN_MAX; i++)
		if (!given[i]) {
			given[i] = *buffer;
			break;
		}
	pthread_mutex_unlock(&lock);
	*buffer += odd;
}

/* A buffer that was none of ours is left alone; lock held. */
static void take_back(uint8_t *buffer)
{
	for (size_t i = 0; i < GIVEN_MAX; i++)
		if (given[i] == buffer) {
			given[i] = NULL;
			free(buffer);
			return;
		}
	printf("foreign\n");
}

static uint32_t word(const uint8_t *record, size_t at)
{
	uint32_t value;
	memcpy(&value, record + at, sizeof value);
	return value;
}

static uint64_t long_word(const uint8_t *record, size_t at)
{
	uint64_t value;
	memcpy(&value, record + at, sizeof value);
	return value;
}

static void print_record(const uint8_t *r, size_t size)
{
	uint32_t kind = word(r, 0);
	printf("record %u %zu", kind, size);
	switch (kind) {
	case 3:
	case 10: {
		const char *name;
		memcpy(&name, r + 104, sizeof name);
		printf(" start=%" PRIu64 " end=%" PRIu64 " device=%u context=%u stream=%u correlation=%u name=%zu",
		       long_word(r, 16), long_word(r, 24), word(r, 40), word(r, 44), word(r, 48), word(r, 92),
		       name ? strlen(name) : 0);
		break;
	}
	case 1:
		printf(" bytes=%" PRIu64 " start=%" PRIu64 " end=%" PRIu64 " correlation=%u", long_word(r, 8),
		       long_word(r, 16), long_word(r, 24), word(r, 44));
		break;
	case 4:
	case 5:
		printf(" cbid=%u start=%" PRIu64 " end=%" PRIu64 " tid=%u correlation=%u result=%u", word(r, 4),
		       long_word(r, 8), long_word(r, 16), word(r, 28), word(r, 32), word(r, 36));
		break;
	case 39:
		printf(" external=%" PRIu64 " correlation=%u", long_word(r, 8), word(r, 16));
		break;
	case 51:
		printf(" correlation=%u start=%" PRIu64 " end=%" PRIu64, word(r, 4), long_word(r, 8), long_word(r, 16));
		break;
	default:
		break;
	}
	printf("\n");
}

typedef int next_record(uint8_t *buffer, size_t valid, uint8_t **record);

static void completed(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	(void)context;
	(void)stream;
	(void)size;
	FUNCTION(next_record *, next, "cuptiActivityGetNextRecord");
	pthread_mutex_lock(&lock);
	printf("buffer %zu %ld\n", valid, syscall(SYS_gettid));
	uint8_t *record = NULL, *before = NULL;
	int result;
	while ((result = next(buffer, valid, &record)) == 0) {
		if (before)
			print_record(before, (size_t)(record - before));
		before = record;
	}
	if (before)
		print_record(before, valid - (size_t)(before - buffer));
	if (flushing)
		call_number("cuptiActivityFlushAll", 0);
	printf("end %d\n", result);
	take_back(buffer);
	fflush(stdout);
	pthread_mutex_unlock(&lock);
}

static void register_callbacks(void)
{
	typedef int registers(void (*)(uint8_t **, size_t *, size_t *),
			      void (*)(void *, uint32_t, uint8_t *, size_t, size_t));
	FUNCTION(registers *, function, "cuptiActivityRegisterCallbacks");
	printf("call cuptiActivityRegisterCallbacks %d\n", function(requested, completed));
}

static void set_attribute(uint32_t attribute, uint8_t value)
{
	typedef int sets(uint32_t, size_t *, void *);
	size_t size = sizeof value;
	FUNCTION(sets *, function, "cuptiActivitySetAttribute");
	printf("call cuptiActivitySetAttribute %d\n", function(attribute, &size, &value));
}

static void print_dropped(void)
{
	typedef int dropped(void *, uint32_t, size_t *);
	size_t count = 0;
	FUNCTION(dropped *, function, "cuptiActivityGetNumDroppedRecords");
	int result = function(NULL, 0, &count);
	printf("dropped %d %zu\n", result, count);
}

static void print_version(void)
{
	typedef int versions(uint32_t *);
	uint32_t version = 0;
	FUNCTION(versions *, function, "cuptiGetVersion");
	int result = function(&version);
	printf("version %d %u\n", result, version);
	fflush(stdout);
}

static void print_time(void)
{
	typedef int times(uint64_t *);
	uint64_t time = 0;
	FUNCTION(times *, function, "cuptiGetTimestamp");
	int result = function(&time);
	struct timespec real;
	clock_gettime(CLOCK_REALTIME, &real);
	printf("time %d %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", result, time, now(),
	       (uint64_t)real.tv_sec * 1000000000u + (uint64_t)real.tv_nsec);
}

static void push(uint64_t id)
{
	typedef int pushes(uint32_t, uint64_t);
	FUNCTION(pushes *, function, "cuptiActivityPushExternalCorrelationId");
	printf("call cuptiActivityPushExternalCorrelationId %d\n", function(3, id));
}

static void pop(void)
{
	typedef int pops(uint32_t, uint64_t *);
	uint64_t id = 0;
	FUNCTION(pops *, function, "cuptiActivityPopExternalCorrelationId");
	int result = function(3, &id);
	printf("popped %d %" PRIu64 "\n", result, id);
}

static void called_back(void *data, uint32_t domain, uint32_t cbid, const void *info)
{
	(void)data;
	printf("callback %u %u %u\n", domain, cbid, word(info, 0));
}

/* As a single subscriber, or with `multiple` as one of several. */
static void subscribe(bool multiple)
{
	typedef int subscribes(void **, void (*)(void *, uint32_t, uint32_t, const void *), void *);
	typedef int subscribes_2(void **, void (*)(void *, uint32_t, uint32_t, const void *), void *, void *);
	char name[64] = "";
	struct {
		size_t size;
		const char *name;
		char *old;
		size_t old_size;
		uint8_t multiple, padding[7];
	} parameters = {sizeof parameters, "feed", name, sizeof name, multiple, {0}};
	void *handle = NULL;
	int result;
	if (find("cuptiSubscribe_v2")) {
		FUNCTION(subscribes_2 *, function, "cuptiSubscribe_v2");
		result = function(&handle, called_back, NULL, &parameters);
	} else {
		FUNCTION(subscribes *, function, "cuptiSubscribe");
		result = function(&handle, called_back, NULL);
	}
	printf("subscribed %d %s\n", result, name);
	typedef int enables(uint32_t, void *, uint32_t);
	FUNCTION(enables *, enable, "cuptiEnableDomain");
	for (uint32_t domain = SIM_DRIVER; result == 0 && domain <= SIM_RUNTIME; domain++)
		printf("call cuptiEnableDomain %d\n", enable(1, handle, domain));
}

static struct sim_call call_of(uint32_t domain, const char *name, uint32_t correlation)
{
	return (struct sim_call){.domain = domain,
				 .correlation = correlation,
				 .name = name,
				 .symbol = name,
				 .start = now(),
				 .pthread = (uint64_t)pthread_self(),
				 .tid = (uint32_t)syscall(SYS_gettid),
				 .pid = (uint32_t)getpid(),
				 .context = 1};
}

static void *finish_one(void *operation)
{
	struct sim_operation *o = operation;
	if (!o->end) {
		o->start = o->submitted + 1000;
		o->end = o->start + 5000;
	}
	if (observer())
		observer()->finished(o);
	return NULL;
}

/* On a thread of the driver's, as it is told. */
static void finish(struct sim_operation *operation)
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, finish_one, operation) == 0)
		pthread_join(thread, NULL);
}

static struct sim_operation operation_of(uint32_t kind, uint32_t correlation)
{
	struct sim_operation o = {.kind = kind, .correlation = correlation, .context = 1, .stream = 7};
	o.id = __atomic_add_fetch(&operations, 1, __ATOMIC_RELAXED);
	o.queued = o.submitted = now();
	o.name = "a_kernel";
	o.bytes = 4096;
	for (int i = 0; i < 3; i++)
		o.grid[i] = o.block[i] = (uint32_t)i + 1;
	return o;
}

/* One launch of `nodes` operations in a runtime call with a driver call in it; with `hold` it does not finish. */
static void launch(uint32_t kind, unsigned nodes, bool graph, bool hold)
{
	const struct sim_observer *who = observer();
	uint32_t correlation = __atomic_add_fetch(&correlations, 1, __ATOMIC_RELAXED);
	if (!who)
		return;
	struct sim_call outer = call_of(SIM_RUNTIME, graph ? "cudaGraphLaunch" : "cudaLaunchKernel", correlation);
	who->call_begin(&outer);
	struct sim_call inner = call_of(SIM_DRIVER, graph ? "cuGraphLaunch" : "cuLaunchKernel", correlation);
	who->call_begin(&inner);
	for (unsigned i = 0; i < nodes; i++) {
		struct sim_operation o = operation_of(kind, correlation);
		if (graph) {
			o.graph = GRAPH;
			o.graph_node = 100 + i;
			o.graph_launch = correlation;
		}
		if (kind != SIM_SYNC)
			who->submitted(&o);
		if (kind == SIM_SYNC) {
			o.start = o.submitted;
			o.end = now();
			o.sync_type = 3;
			who->finished(&o);
		} else if (!hold) {
			finish(&o);
		} else if (pending_count < PENDING_MAX) {
			pending[pending_count++] = o;
		}
	}
	inner.end = now();
	who->call_end(&inner);
	outer.end = now();
	who->call_end(&outer);
}

/* One launch, in whose call of the driver a kind is switched. */
static void switch_inside(uint32_t kind, bool on)
{
	const struct sim_observer *who = observer();
	uint32_t correlation = __atomic_add_fetch(&correlations, 1, __ATOMIC_RELAXED);
	if (!who)
		return;
	struct sim_call call = call_of(SIM_DRIVER, "cuLaunchKernel", correlation);
	who->call_begin(&call);
	call_number(on ? "cuptiActivityEnable" : "cuptiActivityDisable", kind);
	struct sim_operation o = operation_of(SIM_KERNEL, correlation);
	who->submitted(&o);
	finish(&o);
	call.end = now();
	who->call_end(&call);
}

static void peek(size_t bytes)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < GIVEN_MAX; i++)
		if (given[i]) {
			printf("peek");
			for (size_t at = 0; bytes && at + bytes <= buffer_bytes && word(given[i], at); at += bytes)
				printf(" %#x", word(given[i], at));
			printf("\n");
			break;
		}
	pthread_mutex_unlock(&lock);
}

static void tell_memory(void)
{
	static const struct {
		uint32_t allocated, pooled;
	} events[] = {{1, 0}, {0, 0}, {1, 1}};
	for (size_t i = 0; i < sizeof events / sizeof events[0]; i++) {
		struct sim_memory event = {
			.allocated = events[i].allocated, .context = 1, .address = 0x1000, .bytes = 512};
		event.time = now();
		event.memory_kind = 3;
		event.pooled = events[i].pooled;
		event.pool = 0x9000;
		if (observer())
			observer()->memory(&event);
	}
}

static void *launch_many(void *count)
{
	for (unsigned long i = (unsigned long)(uintptr_t)count; i > 0; i--)
		launch(SIM_KERNEL, 1, false, false);
	return NULL;
}

static void threads(unsigned long count, unsigned long launches)
{
	pthread_t all[64];
	count = count < 64 ? count : 64;
	for (unsigned long i = 0; i < count; i++)
		if (pthread_create(&all[i], NULL, launch_many, (void *)(uintptr_t)launches) != 0)
			abort();
	for (unsigned long i = 0; i < count; i++)
		pthread_join(all[i], NULL);
}

static bool operation_word(const char *name, unsigned long count)
{
	static const struct {
		const char *name;
		uint32_t kind;
	} kinds[] = {{"kernel", SIM_KERNEL}, {"copy", SIM_COPY}, {"peer", SIM_PEER_COPY},
		     {"set", SIM_SET},	     {"sync", SIM_SYNC}, {"event", SIM_EVENT}};
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		if (strcmp(name, kinds[i].name) != 0)
			continue;
		while (count-- > 0)
			launch(kinds[i].kind, 1, false, false);
		return true;
	}
	return false;
}

int main(int argc, char **argv)
{
	library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
	if (!library) {
		fprintf(stderr, "feed: %s\n", argc > 1 ? dlerror() : "which library?");
		return 2;
	}
	for (int i = 2; i < argc; i++) {
		const char *name = argv[i];
		unsigned long first = i + 1 < argc ? strtoul(argv[i + 1], NULL, 0) : 0;
		unsigned long second = i + 2 < argc ? strtoul(argv[i + 2], NULL, 0) : 0;
		if (strcmp(name, "up") == 0) {
			up = true;
		} else if (strcmp(name, "register") == 0) {
			buffer_bytes = first;
			buffer_records = second;
			register_callbacks();
			i += 2;
		} else if (strcmp(name, "enable") == 0) {
			call_number("cuptiActivityEnable", (uint32_t)first);
			i++;
		} else if (strcmp(name, "dump") == 0) {
			call_number("cuptiActivityEnableAndDump", (uint32_t)first);
			i++;
		} else if (strcmp(name, "disable") == 0) {
			call_number("cuptiActivityDisable", (uint32_t)first);
			i++;
		} else if (strcmp(name, "flush") == 0) {
			call_number("cuptiActivityFlushAll", (uint32_t)first);
			i++;
		} else if (strcmp(name, "thread_id") == 0) {
			call_number("cuptiSetThreadIdType", (uint32_t)first);
			i++;
		} else if (strcmp(name, "self") == 0) {
			printf("self %ld %" PRIu32 "\n", syscall(SYS_gettid), (uint32_t)(uintptr_t)pthread_self());
		} else if (strcmp(name, "call") == 0) {
			call_number(argv[i + 1], (uint32_t)second);
			i += 2;
		} else if (strcmp(name, "attribute") == 0) {
			set_attribute((uint32_t)first, (uint8_t)second);
			i += 2;
		} else if (operation_word(name, first)) {
			i++;
		} else if (strcmp(name, "memory") == 0) {
			tell_memory();
		} else if (strcmp(name, "graph") == 0) {
			launch(SIM_KERNEL, (unsigned)first, true, false);
			i++;
		} else if (strcmp(name, "begin") == 0) {
			for (; first > 0; first--)
				launch(SIM_KERNEL, 1, false, true);
			i++;
		} else if (strcmp(name, "finish") == 0) {
			while (pending_count > 0)
				finish(&pending[--pending_count]);
		} else if (strcmp(name, "threads") == 0) {
			threads(first, second);
			i += 2;
		} else if (strcmp(name, "sleep") == 0) {
			usleep((useconds_t)first * 1000);
			i++;
		} else if (strcmp(name, "refuse") == 0) {
			refusing = true;
		} else if (strcmp(name, "accept") == 0) {
			refusing = false;
		} else if (strcmp(name, "dirty") == 0) {
			dirty = true;
		} else if (strcmp(name, "odd") == 0) {
			odd = true;
		} else if (strcmp(name, "flushing") == 0) {
			flushing = true;
		} else if (strcmp(name, "inside") == 0) {
			switch_inside((uint32_t)first, second != 0);
			i += 2;
		} else if (strcmp(name, "instantiate") == 0) {
			if (observer())
				observer()->graph(GRAPH);
		} else if (strcmp(name, "peek") == 0) {
			peek(first);
			i++;
		} else if (strcmp(name, "dropped") == 0) {
			print_dropped();
		} else if (strcmp(name, "version") == 0) {
			print_version();
		} else if (strcmp(name, "time") == 0) {
			print_time();
		} else if (strcmp(name, "push") == 0) {
			push(first);
			i++;
		} else if (strcmp(name, "pop") == 0) {
			pop();
		} else if (strcmp(name, "finalize") == 0) {
			call_number("cuptiFinalize", 0);
		} else if (strcmp(name, "subscribe") == 0 || strcmp(name, "multiple") == 0) {
			subscribe(name[0] == 'm');
		} else {
			fprintf(stderr, "feed: what is %s?\n", name);
			return 2;
		}
	}
	fflush(stdout);
	return 0;
}
