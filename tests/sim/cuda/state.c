/* state.c - the driver as a whole: cuInit and the injection, how a call begins and ends, correlation ids, who watches, what the
 * test program says (simcuda.h), fork and exit.
 *
 * Any thread. No lock: a call reads atomics and its own thread's state. `live` lies in a page that fork wipes, so a child
 * finds a driver that is not initialised, whatever made it. */
#include "internal.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_int *live; /* 1 from cuInit on; 0 in a child; 2 once the process exits */
static atomic_int ever;	 /* cuInit has been through, here or in a parent */
static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(const struct sim_observer *) watching;
static atomic_uint correlations;
static atomic_uint_fast64_t ids;
static atomic_int failed;
static atomic_uint_fast64_t launches, kernels, copies, sets, calls_driver, calls_runtime;
static uint64_t fatal_launch, call_spin;
static uint32_t own_pid;
static int version;

/* What a thread is in the midst of. */
static __thread struct {
	uint32_t tid;
	const char *symbol; /* of the entry that was called instead of the plain one */
	uint8_t runtime;
	struct sim_call runtime_call;
	const struct sim_observer *runtime_observer;
	struct simcuda_hint *hints; /* those from hint_first to hint_end are still to be taken */
	size_t hint_first, hint_end, hint_room;
} self;

static pthread_key_t hints_key;

uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

const struct sim_observer *observer(void)
{
	return atomic_load_explicit(&watching, memory_order_acquire);
}

uint32_t next_correlation(void)
{
	uint32_t id;
	do
		id = atomic_fetch_add_explicit(&correlations, 1, memory_order_relaxed);
	while (id == 0);
	return id;
}

uint64_t next_id(void)
{
	return atomic_fetch_add_explicit(&ids, 1, memory_order_relaxed) + 1;
}

int driver_version(void)
{
	return version;
}

int driver_live(void)
{
	return live && atomic_load_explicit(live, memory_order_acquire) == 1;
}

static uint32_t thread_id(void)
{
	if (!self.tid)
		self.tid = (uint32_t)syscall(SYS_gettid);
	return self.tid;
}

/* ---- calls */

void scope_per_thread(const char *symbol)
{
	self.symbol = symbol;
}

static void fill_call(struct sim_call *call, uint32_t domain, const char *name, uint32_t correlation)
{
	struct CUctx_st *context = current_context();
	*call = (struct sim_call){.domain = domain,
				  .correlation = correlation,
				  .name = name,
				  .symbol = name,
				  .pthread = (uint64_t)pthread_self(),
				  .tid = thread_id(),
				  .pid = own_pid,
				  .context = context ? context->id : 0};
}

static void spin(uint64_t ns)
{
	for (uint64_t until = ns ? now() + ns : 0; until && now() < until;)
		;
}

int scope_enter(struct scope *scope, const char *name, const char *symbol)
{
	scope->entered = 0;
	scope->result = CUDA_SUCCESS;
	scope->observer = NULL;
	scope->per_thread = self.symbol != NULL;
	if (self.symbol)
		symbol = self.symbol;
	self.symbol = NULL;
	if (!driver_live()) {
		scope->result = live && atomic_load(live) == 2 ? CUDA_ERROR_DEINITIALIZED : CUDA_ERROR_NOT_INITIALIZED;
		return 1;
	}
	scope->entered = 1;
	atomic_fetch_add_explicit(&calls_driver, 1, memory_order_relaxed);
	scope->correlation = self.runtime ? self.runtime_call.correlation : next_correlation();
	scope->observer = observer();
	if (scope->observer) {
		fill_call(&scope->call, SIM_DRIVER, name, scope->correlation);
		scope->call.symbol = symbol;
		scope->call.start = now();
		if (scope->observer->call_begin)
			scope->observer->call_begin(&scope->call);
	}
	spin(script_time(name, 0));
	if (atomic_load_explicit(&failed, memory_order_relaxed)) {
		scope->result = CUDA_ERROR_LAUNCH_FAILED;
		return 1;
	}
	return 0;
}

void scope_leave(struct scope *scope)
{
	if (!scope->observer)
		return;
	struct CUctx_st *context = current_context();
	if (context)
		scope->call.context = context->id;
	scope->call.result = (int32_t)scope->result;
	scope->call.end = now();
	if (scope->observer->call_end)
		scope->observer->call_end(&scope->call);
}

void driver_fail(void)
{
	atomic_store(&failed, 1);
}

int count_launch(void)
{
	uint64_t n = atomic_fetch_add_explicit(&launches, 1, memory_order_relaxed) + 1;
	if (fatal_launch && n >= fatal_launch) {
		driver_fail();
		return -1;
	}
	spin(call_spin);
	return 0;
}

void count_operation(uint32_t kind)
{
	atomic_uint_fast64_t *counter = kind == SIM_KERNEL			    ? &kernels
					: kind == SIM_COPY || kind == SIM_PEER_COPY ? &copies
					: kind == SIM_SET			    ? &sets
										    : NULL;
	if (counter)
		atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* ---- what the test program says */

/* The one copy of a name that is kept for good, since records point at it. NULL: out of memory. */
static const char *name_kept(const char *name)
{
	static struct kept {
		struct kept *next;
		char name[];
	} * names[4096];
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	uint64_t hash = 14695981039346656037u; /* FNV-1a */
	for (const char *c = name; *c; c++)
		hash = (hash ^ (unsigned char)*c) * 1099511628211u;
	struct kept **bucket = &names[hash % 4096], *found;
	pthread_mutex_lock(&lock);
	for (found = *bucket; found && strcmp(found->name, name) != 0;)
		found = found->next;
	size_t bytes = strlen(name) + 1;
	if (!found && (found = malloc(sizeof *found + bytes))) {
		memcpy(found->name, name, bytes);
		found->next = *bucket;
		*bucket = found;
	}
	pthread_mutex_unlock(&lock);
	return found ? found->name : NULL;
}

static void hints_free(void *hints)
{
	free(hints);
}

EXPORT void simcuda_hint(const struct simcuda_hint *hint)
{
	if (!driver_live() || hint->bytes != sizeof *hint)
		return;
	if (self.hint_end == self.hint_room) {
		size_t room = self.hint_room ? 2 * self.hint_room : 64;
		struct simcuda_hint *grown = realloc(self.hints, room * sizeof *grown);
		if (!grown)
			return;
		self.hints = grown;
		self.hint_room = room;
		pthread_setspecific(hints_key, grown);
	}
	self.hints[self.hint_end] = *hint;
	self.hints[self.hint_end++].name = hint->name ? name_kept(hint->name) : NULL;
}

int take_hint(struct simcuda_hint *hint)
{
	if (self.hint_first == self.hint_end)
		return 0;
	*hint = self.hints[self.hint_first++];
	if (self.hint_first == self.hint_end)
		self.hint_first = self.hint_end = 0;
	return 1;
}

EXPORT void simcuda_runtime_enter(const char *name, uint32_t correlation, uint64_t start)
{
	if (!driver_live())
		return;
	atomic_fetch_add_explicit(&calls_runtime, 1, memory_order_relaxed);
	self.runtime = 1;
	fill_call(&self.runtime_call, SIM_RUNTIME, name, correlation ? correlation : next_correlation());
	self.runtime_call.start = start ? start : now();
	self.runtime_observer = observer();
	if (self.runtime_observer && self.runtime_observer->call_begin)
		self.runtime_observer->call_begin(&self.runtime_call);
}

EXPORT void simcuda_runtime_leave(int32_t result, uint64_t end)
{
	if (!self.runtime)
		return;
	self.runtime = 0;
	struct CUctx_st *context = current_context();
	if (context)
		self.runtime_call.context = context->id;
	self.runtime_call.result = result;
	self.runtime_call.end = end ? end : now();
	if (self.runtime_observer && self.runtime_observer->call_end)
		self.runtime_observer->call_end(&self.runtime_call);
}

EXPORT void simcuda_counts(struct simcuda_counts *counts)
{
	counts->kernels = atomic_load(&kernels);
	counts->copies = atomic_load(&copies);
	counts->sets = atomic_load(&sets);
	counts->calls_driver = atomic_load(&calls_driver);
	counts->calls_runtime = atomic_load(&calls_runtime);
}

/* ---- what libcupti asks */

EXPORT int simcuda_observe(const struct sim_observer *who)
{
	if (!driver_live())
		return -1;
	atomic_store_explicit(&watching, who, memory_order_release);
	return 0;
}

EXPORT void simcuda_dump(void (*fn)(const struct sim_device *device))
{
	if (!driver_live())
		return;
	for (unsigned i = 0; i < device_count; i++)
		fn(&devices[i].facts);
	contexts_dump();
}

EXPORT void simcuda_drain(void)
{
	if (driver_live())
		contexts_drain();
}

EXPORT const char *simcuda_script(const char *key)
{
	return script_value(key);
}

/* ---- birth and death */

static void at_exit(void)
{
	int one = 1;
	if (!live || !atomic_compare_exchange_strong(live, &one, 2))
		return;
	const struct sim_observer *who = atomic_exchange(&watching, NULL);
	if (who && who->exiting)
		who->exiting();
}

static void load_injection(void)
{
	const char *path = getenv("CUDA_INJECTION64_PATH");
	if (!path || !*path || script_value("no_injection"))
		return;
	void *library = dlopen(path, RTLD_LAZY);
	int (*initialize)(void) = NULL;
	if (library)
		*(void **)&initialize = dlsym(library, "InitializeInjection");
	if (initialize)
		initialize();
}

/* The first cuInit. init_lock held. */
static CUresult initialise(void)
{
	if (script_value("no_device") || script_number("devices", 1) == 0)
		return CUDA_ERROR_NO_DEVICE;
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED || madvise(page, 4096, MADV_WIPEONFORK) || pthread_key_create(&hints_key, hints_free))
		return CUDA_ERROR_OUT_OF_MEMORY;
	own_pid = (uint32_t)getpid();
	fatal_launch = script_number("fatal", 0);
	call_spin = script_time("call", 0);
	atomic_store(&correlations, (unsigned)script_number("correlation", 1));
	devices_init();
	live = page;
	atomic_store(&ever, 1);
	atexit(at_exit);
	atomic_store_explicit(live, 1, memory_order_release);
	return CUDA_SUCCESS;
}

CUresult cuInit(unsigned int flags)
{
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (atomic_load(&ever)) {
		CALL(cuInit, );
		RETURN(CUDA_SUCCESS);
	}
	pthread_mutex_lock(&init_lock);
	int first = !atomic_load(&ever);
	CUresult result = first ? initialise() : CUDA_SUCCESS;
	pthread_mutex_unlock(&init_lock);
	if (first && result == CUDA_SUCCESS)
		load_injection();
	return result;
}

static void read_version(void)
{
	version = CUDA_VERSION;
	const char *text = script_value("driver");
	char *minor;
	if (!text)
		return;
	int major = (int)strtol(text, &minor, 10);
	if (major > 0 && *minor == '.')
		version = major * 1000 + (int)strtol(minor + 1, NULL, 10) * 10;
}

__attribute__((constructor)) static void loaded(void)
{
	read_version();
}

CUresult cuDriverGetVersion(int *result)
{
	if (!result)
		return CUDA_ERROR_INVALID_VALUE;
	*result = version;
	return CUDA_SUCCESS;
}

CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
	(void)table, (void)id;
	return CUDA_ERROR_NOT_FOUND;
}

CUresult cuProfilerStart(void)
{
	CALL(cuProfilerStart, );
	RETURN(CUDA_SUCCESS);
}

CUresult cuProfilerStop(void)
{
	CALL(cuProfilerStop, );
	RETURN(CUDA_SUCCESS);
}
