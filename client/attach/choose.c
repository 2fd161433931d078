/* choose.c - see choose.h. */
#include "choose.h"

#include "anew.h"

#include "client/process/task.h"
#include "client/ui/clock.h"
#include "halt.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)

#define CHOOSE_NS 5000000000ll /* for so long places are tried */
/* How often a process is stopped in one attachment, at most: each stop makes a system call begin anew. */
#define STOPS_MOST 8
#define MAIN_AGAIN_NS 10000000ll /* until the main thread is stopped again, twice as long from then on */
#define STACK_LOOK 32768	 /* bytes of its stack that are searched for signal handlers */
#define LOADER_LOOK 4096
#define PAGE_BYTES 4096u
#define RANKS 6
/* A timeout that lies this near above the stack pointer was put there by the C library. */
#define NEAR_BYTES 4096u

/* Where a thread sleeps, as /proc/PID/task/TID/syscall has it. */
struct sleep {
	long number;   /* the kernel's; SYS_restart_syscall where it goes on after a stop */
	long meant;    /* what the program asked for */
	uint64_t a[6]; /* its arguments */
	uint64_t sp, pc;
};

/* False: it runs, or is gone. */
static bool read_sleep(struct target *target, int64_t tid, struct sleep *ret)
{
	unsigned long long a[6], sp, pc;
	char path[96];
	FILE *file;
	int n;

	snprintf(path, sizeof path, "/proc/%lld/task/%lld/syscall", (long long)target->pid, (long long)tid);
	file = fopen(path, "re");
	if (!file)
		return false;
	n = fscanf(file, "%ld %llx %llx %llx %llx %llx %llx %llx %llx", &ret->number, &a[0], &a[1], &a[2], &a[3], &a[4],
		   &a[5], &sp, &pc);
	fclose(file);
	if (n != 9)
		return false;
	for (int i = 0; i < 6; i++)
		ret->a[i] = a[i];
	ret->sp = sp;
	ret->pc = pc;
	ret->meant = ret->number == SYS_restart_syscall ? stopped_meant(&target->process, pc) : ret->number;
	return true;
}

/* The kernel writes into it how much is left when such a call is interrupted. Where it cannot (a constant), the call ends with EINTR
 * (poll_select_finish() in fs/select.c); the C library's own copy on the stack can be written. */
static bool timeout_is_writable(const struct sleep *sleep, uint64_t timeout)
{
	return !timeout || (timeout >= sleep->sp && timeout < sleep->sp + NEAR_BYTES);
}

/* Signal(7), "Interruption of system calls and library functions by stop signals", which holds for the stops of
 * ptrace(2) as well. These calls end with EINTR: epoll_wait, epoll_pwait, semop, semtimedop, sigtimedwait, sigwaitinfo,
 * calls on sockets with a timeout, io_uring_enter, io_getevents and those of many drivers. The calls below begin anew,
 * or go on (restart_syscall) with what is left of their time: poll, select, nanosleep, futex, wait4, pause; read of a
 * pipe or a terminal, sockets without a timeout. A plain FUTEX_WAIT begins anew, too, but it may be a mutex, and a
 * thread that waits for a mutex may hold others. The lower, the better; negative: not this one. */
static int rank_of(const struct target *target, int64_t tid, const struct sleep *sleep)
{
	switch (sleep->meant) {
	case SYS_futex:
		return ((int)sleep->a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET ? 0 : -1;
	case SYS_poll:
	case SYS_nanosleep:
	case SYS_clock_nanosleep:
		return 1;
	case SYS_ppoll:
		return timeout_is_writable(sleep, sleep->a[2]) ? 1 : -1;
	case SYS_select:
	case SYS_pselect6:
		return timeout_is_writable(sleep, sleep->a[4]) ? 1 : -1;
	case SYS_wait4:
	case SYS_pause:
		return 2;
	case SYS_read:
	case SYS_accept:
	case SYS_accept4:
		return waits_anew(target->pid, tid, sleep->a[0], 0) ? 2 : -1;
	case SYS_recvfrom:
		return waits_anew(target->pid, tid, sleep->a[0], sleep->a[3]) ? 2 : -1;
	case SYS_recvmsg:
		return waits_anew(target->pid, tid, sleep->a[0], sleep->a[2]) ? 2 : -1;
	default:
		return -1;
	}
}

/* Does this word look like the loader's place behind a call? Pointers into its code lie on every stack. */
static bool returns_to_loader(struct target *target, uint64_t word)
{
	unsigned char before[7];

	if (!target_is_loader(target, word) ||
	    !python_read(&target->process.memory, word - sizeof before, before, sizeof before))
		return false;
	/* call rel32; call by a register, or by what it points to, with no, a short or a long offset. */
	return before[2] == 0xe8 || before[5] == 0xff || before[4] == 0xff || before[1] == 0xff;
}

/* Does a signal handler run in it, as far as its stack shows? What it interrupted may hold any lock. */
static bool in_handler(struct target *target, uint64_t from, bool loader_too)
{
	uint64_t stack[STACK_LOOK / 8];
	size_t n = 0, piece = PAGE_BYTES - from % PAGE_BYTES;

	/* Reads all at once, while the thread stands. If the stack ends before that: a page at a time, up to its
	 * end. */
	if (python_read(&target->process.memory, from, stack, sizeof stack))
		n = sizeof stack;
	while (n < STACK_LOOK && python_read(&target->process.memory, from + n, (char *)stack + n, piece)) {
		n += piece;
		piece = STACK_LOOK - n < PAGE_BYTES ? STACK_LOOK - n : PAGE_BYTES;
	}
	/* What cannot be read is not known: it may be another process by now. */
	if (!n)
		return true;
	for (size_t i = 0; i < n / 8; i++)
		if (stack[i] == target->leave ||
		    (loader_too && i < LOADER_LOOK / 8 && returns_to_loader(target, stack[i])))
			return true;
	return false;
}

static bool sleeps_still(const struct stopped *thread, const struct sleep *sleep)
{
	const struct user_regs_struct *r = &thread->state.registers;
	long result = (long)r->rax;

	return (long)r->orig_rax == sleep->number && r->rsp == sleep->sp &&
	       (result == -516 || (result <= -512 && result >= -514));
}

/* Is what stands a thread of the process that was looked at, and one that may be made to call? Its memory, which is held, can still be
 * read: in_handler(). */
static bool is_ours(const struct stopped *thread)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/%lld/task/%lld", (long long)thread->pid, (long long)thread->tid);
	return access(path, F_OK) == 0 && !target_shuts(thread->tid) && stopped_is_plain(thread);
}

int choose_end(struct stops *stops, struct stopped *thread)
{
	int error = stopped_end(thread);

	stops->ns += thread->until - thread->since;
	return error;
}

static int stop(struct target *target, int64_t tid, struct stops *stops, struct stopped *ret)
{
	if (stops->count >= STOPS_MOST)
		return -EBUSY;
	stops->count++;
	return stopped_begin(ret, target->pid, tid, &target->process);
}

/* The rank of one that may be stopped, as far as can be seen without touching it; negative: it may not. */
static int look_at_sleeper(struct target *target, const struct process_task *task, struct sleep *sleep)
{
	int rank = task->state == 'S' && read_sleep(target, task->tid, sleep) ? rank_of(target, task->tid, sleep) : -1;

	if (rank < 0 || target_shuts(task->tid) || in_handler(target, sleep->sp, false) ||
	    !stopped_has_room(target->pid, task->tid, sleep->sp))
		return -1;
	/* Rather not the main thread. */
	return 2 * rank + (task->tid == target->pid);
}

/* 0: it stands. */
static int stop_sleeper(struct target *target, int64_t tid, const struct sleep *sleep, struct stops *stops,
			struct stopped *ret)
{
	int error = stop(target, tid, stops, ret);

	if (error)
		return error;
	if (sleeps_still(ret, sleep) && is_ours(ret) && !in_handler(target, ret->state.registers.rsp, false) &&
	    !stopped_lay(ret, target->leave))
		return 0;
	choose_end(stops, ret);
	return -EAGAIN;
}

static int try_sleepers(struct target *target, struct stops *stops, struct stopped *ret)
{
	size_t count;
	struct process_task *tasks = process_tasks(target->pid, &count);
	int error = tasks ? -EAGAIN : -ESRCH;

	for (int wanted = 0; wanted < RANKS && error == -EAGAIN; wanted++)
		for (size_t i = 0; i < count && error == -EAGAIN; i++) {
			struct sleep sleep;

			if (look_at_sleeper(target, &tasks[i], &sleep) == wanted)
				error = stop_sleeper(target, tasks[i].tid, &sleep, stops, ret);
			/* A thread that ends is no reason to give up. */
			if (error == -ESRCH && tasks[i].tid != target->pid)
				error = -EAGAIN;
		}
	free(tasks);
	return error;
}

static bool may_call(struct target *target, const struct stopped *thread, enum choose_what what)
{
	uint64_t sp = thread->state.registers.rsp;

	if (what == CHOOSE_TO_QUEUE)
		return !in_handler(target, sp, false);
	return target_clean(target, thread->state.registers.rip) && !in_handler(target, sp, true);
}

int choose_main(struct target *target, enum choose_what what, struct stops *stops, struct stopped *ret)
{
	int error;

	/* A thread that sleeps would notice the stop, unless try_sleepers() takes it. A thread in an uninterruptible
	 * wait (D) cannot be stopped. */
	if (process_task_state(target->pid, target->pid) != 'R' || target_shuts(target->pid))
		return -EAGAIN;
	error = stop(target, target->pid, stops, ret);
	if (error)
		return error;
	if (may_call(target, ret, what) && is_ours(ret) && stopped_is_alone(ret) && !stopped_lay(ret, target->leave))
		return 0;
	choose_end(stops, ret);
	return -EAGAIN;
}

int choose_thread(struct target *target, enum choose_what what, int64_t most, struct stops *stops, struct stopped *ret)
{
	int64_t began = clock_now(), until = began + (most < CHOOSE_NS ? most : CHOOSE_NS), next = began,
		pause = MAIN_AGAIN_NS;
	int error = -EAGAIN;

	/* One more stop, of the main thread, would follow: see queue_again(). */
	if (what == CHOOSE_TO_QUEUE && target->minor <= 12)
		error = choose_main(target, what, stops, ret);
	for (int i = 0; error == -EAGAIN && clock_now() < until && !halt_asked(); i++) {
		const struct timespec nap = {0, 100000 + (i % 9) * 100000};
		unsigned before = stops->count;

		error = try_sleepers(target, stops, ret);
		if (error == -EAGAIN && what != CHOOSE_TO_START_ASLEEP && clock_now() >= next)
			error = choose_main(target, what, stops, ret);
		if (stops->count > before) {
			next = clock_now() + pause;
			pause *= 2;
		}
		if (error == -EAGAIN)
			nanosleep(&nap, NULL);
	}
	/* It has been stopped as often as it may. */
	return error == -EBUSY ? -EAGAIN : error;
}

bool choose_could(struct target *target)
{
	size_t count;
	struct process_task *tasks = process_tasks(target->pid, &count);
	bool could = false;

	for (size_t i = 0; i < count && !could; i++) {
		struct sleep sleep;

		could = look_at_sleeper(target, &tasks[i], &sleep) >= 0 ||
			(tasks[i].tid == target->pid && tasks[i].state == 'R');
	}
	free(tasks);
	return could;
}

#endif
