/* entry.c - what every exported function does first and last: the script's failures, the answers of the real library where no
 * driver is up, the last error, and the log of calls. Any thread; entry_lock guards the counts. */
#include "simcupti.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t entry_lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local CUptiResult last_error;
static bool gone;

void sim_forbid(bool offence, const char *what)
{
	if (!offence || script_value("lenient"))
		return;
	fprintf(stderr, "simulated CUPTI: the client gave or did what is forbidden: %s\n", what);
	abort();
}

void *sim_driver_function(const char *name)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
	void *function = driver ? dlsym(driver, name) : NULL;
	if (driver)
		dlclose(driver);
	return function ? function : dlsym(RTLD_DEFAULT, name);
}

simcuda_dump_fn *sim_dump_function(void)
{
	void *found = sim_driver_function("simcuda_dump");
	simcuda_dump_fn *function;
	memcpy(&function, &found, sizeof function);
	return function;
}

static bool observed;

static int observe(const struct sim_observer *observer)
{
	void *found = sim_driver_function("simcuda_observe");
	simcuda_observe_fn *function;
	memcpy(&function, &found, sizeof function);
	return function ? function(observer) : -1;
}

void sim_observe(bool on)
{
	pthread_mutex_lock(&entry_lock);
	if (__atomic_load_n(&observed, __ATOMIC_RELAXED) != on) {
		observe(on ? &sim_observer : NULL);
		__atomic_store_n(&observed, on, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&entry_lock);
}

bool sim_driver_up(void)
{
	if (__atomic_load_n(&gone, __ATOMIC_ACQUIRE))
		return false;
	if (__atomic_load_n(&observed, __ATOMIC_ACQUIRE))
		return true;
	pthread_mutex_lock(&entry_lock);
	/* Where launches count that are under way as a kind is enabled, they are watched before. */
	bool early = script_value("toggle_mid_launch") != NULL;
	bool up = __atomic_load_n(&observed, __ATOMIC_RELAXED) || observe(early ? &sim_observer : NULL) == 0;
	if (up && early)
		__atomic_store_n(&observed, true, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&entry_lock);
	return up;
}

void sim_driver_gone(void)
{
	__atomic_store_n(&gone, true, __ATOMIC_RELEASE);
}

/* What the script's `key` says of this call: its list is NAME[/ARGUMENT][@N][:VALUE], joined by +; from the N-th such call on.
 * NULL: nothing; else VALUE, in `text`. */
static const char *rule(const char *key, const char *function, uint32_t argument, char *text, size_t size)
{
	static struct {
		const char *part;
		uint64_t calls;
	} counts[64];
	const char *list = script_value(key);
	size_t length = strlen(function);
	for (const char *part = list; part && *part; part = strchr(part, '+') ? strchr(part, '+') + 1 : NULL) {
		if (strncmp(part, function, length) != 0 || !strchr("/@:+", part[length]))
			continue;
		const char *at = part + length;
		char *end = NULL;
		if (*at == '/') {
			if (strtoul(at + 1, &end, 10) != argument)
				continue;
			at = end;
		}
		if (*at == '@') {
			uint64_t from = strtoull(at + 1, &end, 10), calls = 0;
			at = end;
			pthread_mutex_lock(&entry_lock);
			for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
				if (!counts[i].part || counts[i].part == part) {
					counts[i].part = part;
					calls = ++counts[i].calls;
					break;
				}
			pthread_mutex_unlock(&entry_lock);
			if (calls < from)
				continue;
		}
		at += *at == ':';
		snprintf(text, size, "%.*s", (int)strcspn(at, "+"), at);
		return text;
	}
	return NULL;
}

/* One line a call: when it ended (CLOCK_MONOTONIC ns), thread, function, argument, result. */
static void write_log(const char *function, uint32_t argument, const char *result)
{
	static int file = -1;
	const char *path = script_value("log");
	if (!path)
		return;
	char line[256];
	int length = snprintf(line, sizeof line, "%" PRIu64 " %ld %s %" PRIu32 " %s\n", sim_monotonic(),
			      syscall(SYS_gettid), function, argument, result);
	pthread_mutex_lock(&entry_lock);
	if (file < 0)
		file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (file >= 0 && length > 0 && write(file, line, (size_t)length) < 0)
		fprintf(stderr, "simulated CUPTI: %s cannot be written\n", path);
	pthread_mutex_unlock(&entry_lock);
}

static uint64_t recurse(uint64_t depth);
static uint64_t (*volatile recursion)(uint64_t depth) = recurse;

static uint64_t recurse(uint64_t depth)
{
	volatile uint8_t frame[512];
	frame[depth % sizeof frame] = 1;
	return recursion(depth + 1) + frame[0];
}

void sim_crash(void)
{
	static volatile uint8_t *volatile nowhere;
	*nowhere = 1;
}

/* Without a driver: what each release was seen to do. */
static CUptiResult without_driver(const char *function, bool always)
{
	const char *version = script_value("version");
	if (__atomic_load_n(&gone, __ATOMIC_ACQUIRE)) /* it was there: nobody saw these crash */
		return always			   ? CUPTI_SUCCESS
		       : SIM_RELEASE_NUMBER < 1300 ? CUPTI_ERROR_NOT_INITIALIZED
						   : CUPTI_ERROR_UNKNOWN;
	if (SIM_RELEASE_NUMBER == 1302 ||
	    (version && strcmp(version, "overflow") == 0 && !strcmp(function, "cuptiGetVersion")))
		recurse(0);
	if (SIM_RELEASE_NUMBER > 1302)
		return CUPTI_ERROR_UNKNOWN;
	if (SIM_RELEASE_NUMBER >= 1202 && SIM_RELEASE_NUMBER < 1300 && strcmp(function, "cuptiFinalize") == 0)
		sim_crash();
	if (always || (SIM_RELEASE_NUMBER >= 1205 && strcmp(function, "cuptiActivityGetNumDroppedRecords") == 0))
		return CUPTI_SUCCESS;
	return SIM_RELEASE_NUMBER < 1300 ? CUPTI_ERROR_NOT_INITIALIZED : CUPTI_ERROR_UNKNOWN;
}

CUptiResult sim_enter(const char *function, uint32_t argument, bool always)
{
	char value[64];
	if (rule("slow", function, argument, value, sizeof value)) {
		char *unit;
		double time = strtod(value, &unit);
		time *= strcmp(unit, "s") == 0 ? 1e9 : strcmp(unit, "us") == 0 ? 1e3 : 1e6;
		write_log(function, argument, "slow");
		struct timespec pause = {.tv_sec = (time_t)(time / 1e9), .tv_nsec = (long)time % 1000000000};
		nanosleep(&pause, NULL);
	}
	if (rule("hang", function, argument, value, sizeof value)) {
		write_log(function, argument, "hangs");
		for (;;)
			sleep(1000);
	}
	if (rule("crash", function, argument, value, sizeof value)) {
		write_log(function, argument, "crashes");
		sim_crash();
	}
	if (rule("fail", function, argument, value, sizeof value))
		return (CUptiResult)strtol(value, NULL, 10);
	if (!sim_driver_up())
		return without_driver(function, always);
	return CUPTI_SUCCESS;
}

CUptiResult sim_leave(const char *function, uint32_t argument, CUptiResult result)
{
	char text[16];
	snprintf(text, sizeof text, "%d", (int)result);
	write_log(function, argument, text);
	if (result != CUPTI_SUCCESS)
		last_error = result;
	return result;
}

CUptiResult sim_last_error(void)
{
	CUptiResult result = last_error;
	last_error = CUPTI_SUCCESS;
	return result;
}
