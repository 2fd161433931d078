/* fuzz_agent_thread_times.c - what the agent reads of its threads and of the loader's workers in /proc: any text there becomes records
 * that the daemon takes. See files.h.
 * wrap: keeper_read_file keeper_open keeper_read_again keeper_run keeper_close access clock_gettime sink_own sink_write_spared sink_string */
#include "agent/thread_times.h"
#include "files.h"
#include "proto/events.h"

#include <time.h>

#define LOOKS 40

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
size_t __wrap_keeper_read_file(const char *path, char *to, size_t bytes);
int __wrap_keeper_open(const char *path);
size_t __wrap_keeper_read_again(int fd, char *to, size_t bytes);
long __wrap_keeper_run(long (*work)(void *argument), void *argument);
void __wrap_keeper_close(int fd);
int __wrap_access(const char *path, int mode);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);
void *__wrap_sink_own(void);
int __wrap_sink_write_spared(void *thread, const void *record);
uint32_t __wrap_sink_string(void *thread, const char *text, size_t bytes, uint8_t kind);

static int64_t now_ns;
static unsigned written;

size_t __wrap_keeper_read_file(const char *path, char *to, size_t bytes)
{
	const uint8_t *from;
	size_t n = files_next(&from);
	(void)path;
	n = n < bytes ? n : bytes - 1;
	if (n)
		memcpy(to, from, n);
	to[n] = 0;
	return n;
}

int __wrap_keeper_open(const char *path)
{
	(void)path;
	return 1;
}

size_t __wrap_keeper_read_again(int fd, char *to, size_t bytes)
{
	(void)fd;
	return __wrap_keeper_read_file("", to, bytes);
}

long __wrap_keeper_run(long (*work)(void *argument), void *argument)
{
	return work(argument);
}

void __wrap_keeper_close(int fd)
{
	(void)fd;
}

int __wrap_access(const char *path, int mode)
{
	(void)path;
	(void)mode;
	return 0;
}

/* Time passes by being asked for; so does every thread's. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
	(void)clock;
	now_ns += 1000;
	*ret = (struct timespec){now_ns / 1000000000, now_ns % 1000000000};
	return 0;
}

void *__wrap_sink_own(void)
{
	return &written;
}

int __wrap_sink_write_spared(void *thread, const void *record)
{
	_Alignas(8) uint8_t bytes[512];
	uint16_t size;
	size_t at = 0;
	union event_any event;
	(void)thread;
	memcpy(&size, record, sizeof size);
	if (size > sizeof bytes)
		abort();
	memcpy(bytes, record, size);
	if (event_read(bytes, size, &at, &event) != EVENT_OK)
		abort();
	written++;
	return 1;
}

uint32_t __wrap_sink_string(void *thread, const char *text, size_t bytes, uint8_t kind)
{
	(void)thread;
	(void)kind;
	if (bytes > 32 || memchr(text, 0, bytes) == text)
		return 0;
	return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	if (!n)
		return 0;
	files_begin(data + 1, n - 1);
	now_ns = 1000000000;
	written = 0;
	/* The step's thread is the first one, another, or not known yet. */
	uint32_t thread = data[0] & 1 ? (uint32_t)getpid() : data[0] & 2 ? (uint32_t)getpid() + 1 : 0;
	thread_times_begin();
	for (unsigned i = 0; i < LOOKS && files.left; i++)
		now_ns = (int64_t)thread_times_work((uint64_t)now_ns, thread);
	thread_times_end(thread);
	thread_times_write(1, 0);
	/* The first look, those after it, the last; and the workers. */
	if (written > LOOKS + 2 + 64)
		abort();
	return 0;
}
