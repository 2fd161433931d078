/* choose.c - see choose.h. */
#include "choose.h"

#include "client/process/task.h"
#include "client/ui/clock.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)

#define CHOOSE_NS 5000000000ll /* for so long places are tried */
#define STACK_LOOK 32768       /* bytes of its stack that are searched for signal handlers */
#define LOADER_LOOK 4096
#define PAGE_BYTES 4096u

/* The lower, the better; negative: not this one. A plain FUTEX_WAIT may be a mutex; epoll_wait shows a program that it was
 * interrupted. */
static int rank_of(long number, uint64_t second)
{
	switch (number) {
	case SYS_futex:
		return ((int)second & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET ? 0 : -1;
	case SYS_poll:
	case SYS_ppoll:
	case SYS_select:
	case SYS_pselect6:
	case SYS_nanosleep:
	case SYS_clock_nanosleep:
		return 1;
	case SYS_accept:
	case SYS_accept4:
	case SYS_recvfrom:
	case SYS_recvmsg:
	case SYS_read:
	case SYS_wait4:
		return 2;
	default:
		return -1;
	}
}

static int rank_thread(const struct target *target, const struct process_task *task, long *number)
{
	unsigned long long first, second;
	char path[96];
	FILE *file;
	int rank = -1;

	if (task->state != 'S')
		return -1;
	snprintf(path, sizeof path, "/proc/%lld/task/%lld/syscall", (long long)target->pid, (long long)task->tid);
	file = fopen(path, "re");
	if (!file)
		return -1;
	if (fscanf(file, "%ld %llx %llx", number, &first, &second) == 3)
		rank = rank_of(*number, second);
	fclose(file);
	/* Rather not the main thread. */
	return rank < 0 ? rank : 2 * rank + (task->tid == target->pid);
}

/* Does this word look like the loader's place behind a call? Pointers into its code lie on every stack. */
static bool returns_to_loader(const struct target *target, const struct stopped *thread, uint64_t word)
{
	unsigned char before[7];

	if (!target_is_loader(target, word) ||
	    !python_read(&thread->process->memory, word - sizeof before, before, sizeof before))
		return false;
	/* call rel32; call by a register, or by what it points to, with no, a short or a long offset. */
	return before[2] == 0xe8 || before[5] == 0xff || before[4] == 0xff || before[1] == 0xff;
}

/* Does a signal handler run in it, as far as its stack shows? What it interrupted may hold any lock. */
static bool in_handler(const struct target *target, const struct stopped *thread, bool loader_too)
{
	uint64_t stack[STACK_LOOK / 8], from = thread->state.registers.rsp;
	size_t n = 0, piece = PAGE_BYTES - from % PAGE_BYTES;

	/* To its end, which may be near: a page at a time. */
	while (n < STACK_LOOK && python_read(&thread->process->memory, from + n, (char *)stack + n, piece)) {
		n += piece;
		piece = STACK_LOOK - n < PAGE_BYTES ? STACK_LOOK - n : PAGE_BYTES;
	}
	/* What cannot be read is not known: it may be another process by now. */
	if (!n)
		return true;
	for (size_t i = 0; i < n / 8; i++)
		if (stack[i] == target->leave ||
		    (loader_too && i < LOADER_LOOK / 8 && returns_to_loader(target, thread, stack[i])))
			return true;
	return false;
}

static bool sleeps_still(const struct stopped *thread, long number)
{
	long result = (long)thread->state.registers.rax;

	return (long)thread->state.registers.orig_rax == number &&
	       (result == -516 || (result <= -512 && result >= -514));
}

/* Is what stands a thread of the process that was looked at? Its memory, which is held, can still be read: in_handler(). */
static bool is_ours(const struct stopped *thread)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/%lld/task/%lld", (long long)thread->pid, (long long)thread->tid);
	return access(path, F_OK) == 0;
}

/* 0: it stands. */
static int stop_sleeper(struct target *target, int64_t tid, long number, struct stopped *ret)
{
	int error = stopped_begin(ret, target->pid, tid, &target->process);

	if (error)
		return error;
	if (sleeps_still(ret, number) && is_ours(ret) && !in_handler(target, ret, false) &&
	    !stopped_lay(ret, target->leave))
		return 0;
	stopped_end(ret);
	return -EAGAIN;
}

static int try_sleepers(struct target *target, struct stopped *ret)
{
	size_t count;
	struct process_task *tasks = process_tasks(target->pid, &count);
	int error = tasks ? -EAGAIN : -ESRCH;

	for (int wanted = 0; wanted < 6 && error == -EAGAIN; wanted++)
		for (size_t i = 0; i < count && error == -EAGAIN; i++) {
			long number;

			if (rank_thread(target, &tasks[i], &number) == wanted)
				error = stop_sleeper(target, tasks[i].tid, number, ret);
			/* A thread that ends is no reason to give up. */
			if (error == -ESRCH && tasks[i].tid != target->pid)
				error = -EAGAIN;
		}
	free(tasks);
	return error;
}

/* A pending call is queued without malloc and without the loader, so Python may stand anywhere. */
static bool may_call(const struct target *target, const struct stopped *thread)
{
	if (target->python)
		return !in_handler(target, thread, false);
	return target_clean(target, thread->state.registers.rip) && !in_handler(target, thread, true);
}

int choose_main(struct target *target, struct stopped *ret)
{
	/* In the kernel's own hands it cannot be stopped. */
	int error = process_task_state(target->pid, target->pid) == 'D'
			    ? -EAGAIN
			    : stopped_begin(ret, target->pid, target->pid, &target->process);

	if (error)
		return error;
	if (may_call(target, ret) && is_ours(ret) && !stopped_lay(ret, target->leave))
		return 0;
	stopped_end(ret);
	return -EAGAIN;
}

int choose_thread(struct target *target, struct stopped *ret)
{
	int64_t until = clock_now() + CHOOSE_NS;
	int error = -EAGAIN;

	for (int i = 0; error == -EAGAIN && clock_now() < until; i++) {
		const struct timespec nap = {0, 100000 + (i % 9) * 100000};

		error = try_sleepers(target, ret);
		if (error == -EAGAIN)
			error = choose_main(target, ret);
		if (error == -EAGAIN)
			nanosleep(&nap, NULL);
	}
	return error;
}

#endif
