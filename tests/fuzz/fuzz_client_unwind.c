/* fuzz_client_unwind.c - the pipe of the process that unwinds: it reads foreign files and may have been taken over by them. Whatever it sends, the
 * stacks are within bounds, their texts have ends, and one that is not whole says why. The input: how many threads, how that process
 * ended, how often the rest is sent, the rest.
 * wrap: fork waitpid kill pipe2 libdw_load */
#include "client/native/libdw.h"
#include "client/native/unwind.h"
#include "client/native/unwinder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define THREADS 3
#define CHILD 999999
#define OFTEN 6000 /* more records than frames of a thread are kept */
#define SENT_MOST (6u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
pid_t __wrap_fork(void);
pid_t __real_fork(void);
pid_t __wrap_waitpid(pid_t pid, int *status, int options);
pid_t __real_waitpid(pid_t pid, int *status, int options);
int __wrap_kill(pid_t pid, int signal);
int __real_kill(pid_t pid, int signal);
int __wrap_pipe2(int ends[2], int flags);
int __real_pipe2(int ends[2], int flags);
const struct libdw *__wrap_libdw_load(void);

static const uint8_t *sent;
static size_t sent_bytes, sent_times;
static int ended;
static bool running;

/* What it sends lies there already. */
int __wrap_pipe2(int ends[2], int flags)
{
	if (!running)
		return __real_pipe2(ends, flags);
	ends[0] = memfd_create("pipe", MFD_CLOEXEC);
	ends[1] = fcntl(ends[0], F_DUPFD_CLOEXEC, 0);
	for (size_t i = 0; i < sent_times; i++)
		if (pwrite(ends[0], sent, sent_bytes, (off_t)(i * sent_bytes)) != (ssize_t)sent_bytes)
			abort();
	return 0;
}

pid_t __wrap_fork(void)
{
	return running ? CHILD : __real_fork();
}

int __wrap_kill(pid_t pid, int signal)
{
	return pid == CHILD ? 0 : __real_kill(pid, signal);
}

pid_t __wrap_waitpid(pid_t pid, int *status, int options)
{
	if (pid != CHILD)
		return __real_waitpid(pid, status, options);
	*status = ended;
	return CHILD;
}

const struct libdw *__wrap_libdw_load(void)
{
	static const struct libdw none;
	return &none;
}

static void check(const struct native_stack *stack)
{
	if (stack->count > UNWIND_FRAMES_MOST || strnlen(stack->reason, sizeof stack->reason) == sizeof stack->reason)
		abort();
	if (!stack->whole && !*stack->reason)
		abort();
	for (size_t i = 0; i < stack->count; i++) {
		const struct native_frame *frame = &stack->frames[i];
		if (strnlen(frame->symbol, sizeof frame->symbol) == sizeof frame->symbol ||
		    strnlen(frame->object, sizeof frame->object) == sizeof frame->object)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static const struct native_stand stands[THREADS];
	static const struct native_maps maps;
	static const struct process_memory memory;
	if (n < 3)
		return 0;
	size_t count = data[0] % (THREADS + 1);
	ended = data[1];
	sent = data + 3;
	sent_bytes = n - 3;
	sent_times = data[2] > 250 ? OFTEN : 1 + data[2] % 4;
	if (sent_times * sent_bytes > SENT_MOST)
		sent_times = 1;
	struct native_stack *stacks = calloc(count + 1, sizeof *stacks);
	if (!stacks)
		return 0;
	running = true;
	unwind(1, &maps, &memory, stands, stacks, count);
	running = false;
	for (size_t i = 0; i < count; i++)
		check(&stacks[i]);
	unwind_free(stacks, count);
	return 0;
}
