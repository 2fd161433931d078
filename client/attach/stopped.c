/* stopped.c - see stopped.h.
 *
 * The order is what keeps the job alive if we are killed in between. Registers are changed only once the frame lies in the stack; signals
 * are blocked only after that, and unblocked before the registers are put back. A thread whose tracer is gone runs on with the
 * registers that it has then: it comes out of what it calls into rt_sigreturn, which puts back all. */
#include "stopped.h"

#include "client/process/facts.h"
#include "client/process/task.h"
#include "client/ui/clock.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)

#define STOP_NS 1000000000ll
/* A thread that has not come back from a call is not let go before it is where it was, on however full a machine. */
#define BACK_NS 10000000000ll
/* A call is given up if it sleeps and has not come back after this time, or has computed for this time. Usually it
 * takes less than a hundredth of that. */
#define SLEEPS_MOST_NS 2000000000ll
#define RUNS_MOST_NS 100000000ll
#define CALL_NS 500000000ll
/* One that does not get the processor (a cgroup's quota, a full machine) may hold a lock by then: it is waited for, and after so long it
 * goes on with what it was made to call. */
#define HELD_UP_MOST_NS 6000000000ll
#define LOOK_NS 50000000ll
/* On a machine that is not full a stop comes sooner than a sleep would end. On a full one who sleeps makes room for the thread that is
 * waited for. */
#define SPIN_NS 20000ll
#define SLICE_NS 2000000
#define BACK_SLICE_NS                                                                                                  \
	20000 /* twice as long each time: who looks often has the thread wait for the processor, and for its own memory's lock */
#define BACK_SLICE_MOST_NS 160000
/* The frame, and the stack of what is called. The kernel keeps a gap below a stack that grows: 256 pages, unless it was told another. */
#define GROWS_BYTES (FRAME_BYTES_MOST + FRAME_STACK_BYTES + 4096u)
#define GAP_BYTES (1u << 20)
/* How long a thread that has come back waits for us. */
#define COME_BACK_NS 200000000
/* Above the stop's signal: which event of ptrace's it is. */
#define EVENT(status) ((unsigned)(status) >> 16)
#define SYSCALL_STOP (SIGTRAP | 0x80)
#define STEPS_MOST 4096 /* system calls that what we call may make */

#ifndef PTRACE_GETSIGMASK
#define PTRACE_GETSIGMASK 0x420a
#define PTRACE_SETSIGMASK 0x420b
#endif

#define PTRACE_GET_RSEQ 0x420f
#define PTRACE_GET_DISPATCH 0x4211

static long trace(int request, const struct stopped *thread, uint64_t address, const void *data)
{
	return ptrace((enum __ptrace_request)request, (pid_t)thread->tid, (void *)(uintptr_t)address, data);
}

/* Waits for the next stop. 0; -ETIMEDOUT; -ESRCH: the thread is gone. */
static int wait_stop(const struct stopped *thread, int *status, int64_t most)
{
	const struct timespec slice = {0, SLICE_NS};
	int64_t began = clock_of(CLOCK_MONOTONIC);
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	for (;;) {
		pid_t found = waitpid((pid_t)thread->tid, status, __WALL | WNOHANG);

		if (found == (pid_t)thread->tid)
			return WIFSTOPPED(*status) ? 0 : -ESRCH;
		if (found < 0 && errno != EINTR)
			return -ESRCH;
		int64_t waited = clock_of(CLOCK_MONOTONIC) - began;
		if (waited > most)
			return -ETIMEDOUT;
		/* One that is left of an earlier stop costs a turn. */
		if (waited > SPIN_NS)
			sigtimedwait(&child, NULL, &slice);
	}
}

/* Waits until it stands because of PTRACE_INTERRUPT, which has been asked for. It gets the signals that it is sent
 * meanwhile. */
static int wait_interrupt(const struct stopped *thread, int64_t most)
{
	int64_t deadline = clock_of(CLOCK_MONOTONIC) + most;
	int status;

	for (int i = 0; i < STEPS_MOST; i++) {
		int error = wait_stop(thread, &status, deadline - clock_of(CLOCK_MONOTONIC));

		if (error)
			return error;
		if (EVENT(status) == PTRACE_EVENT_STOP)
			return WSTOPSIG(status) == SIGTRAP ? 0 : -EAGAIN; /* else the job is being stopped itself */
		int signal = EVENT(status) || WSTOPSIG(status) == SYSCALL_STOP ? 0 : WSTOPSIG(status);
		/* Any other stop makes the kernel forget that it was asked for this one. */
		if (trace(PTRACE_INTERRUPT, thread, 0, NULL) || trace(PTRACE_CONT, thread, 0, (void *)(intptr_t)signal))
			return -errno;
	}
	return -ETIMEDOUT;
}

static int read_state(struct stopped *thread)
{
	struct iovec xstate = {thread->state.xstate, sizeof thread->state.xstate};

	if (trace(PTRACE_GETREGS, thread, 0, &thread->state.registers) ||
	    trace(PTRACE_GETREGSET, thread, NT_X86_XSTATE, &xstate) ||
	    trace(PTRACE_GETSIGMASK, thread, sizeof thread->state.mask, &thread->state.mask))
		return -errno;
	thread->state.xstate_bytes = xstate.iov_len;
	thread->state.meant = (long)thread->state.registers.orig_rax;
	if (thread->state.meant == SYS_restart_syscall)
		thread->state.meant = stopped_meant(thread->process, thread->state.registers.rip);
	return 0;
}

/* Those that restart_syscall goes on with: mov $NUMBER, %eax; syscall, as each C library has it. */
long stopped_meant(struct process_memory *process, uint64_t pc)
{
	static const uint32_t those[] = {SYS_poll, SYS_nanosleep, SYS_clock_nanosleep, SYS_futex};
	unsigned char code[7];
	uint32_t number;

	if (!python_read(&process->memory, pc - sizeof code, code, sizeof code) || code[0] != 0xb8 || code[5] != 0x0f ||
	    code[6] != 5)
		return -1;
	memcpy(&number, code + 1, sizeof number);
	for (size_t i = 0; i < sizeof those / sizeof *those; i++)
		if (number == those[i])
			return number;
	return -1;
}

bool stopped_is_plain(const struct stopped *thread)
{
	uint64_t dispatch[4] = {0};

	/* A kernel that does not tell (before 6.4) is believed to have none: who uses it are emulators. */
	return trace(PTRACE_GET_DISPATCH, thread, sizeof dispatch, dispatch) || !dispatch[0];
}

bool stopped_is_alone(const struct stopped *thread)
{
	struct {
		uint64_t at;
		uint32_t size, signature, flags, unused;
	} area = {0};
	uint64_t sequence = 0;

	return trace(PTRACE_GET_RSEQ, thread, sizeof area, &area) < 0 || !area.at ||
	       (python_read(&thread->process->memory, area.at + 8, &sequence, sizeof sequence) && !sequence);
}

int stopped_begin(struct stopped *ret, int64_t pid, int64_t tid, struct process_memory *process)
{
	sigset_t child;

	*ret = (struct stopped){.pid = pid, .tid = tid, .process = process};
	if (trace(PTRACE_SEIZE, ret, 0, (void *)(intptr_t)PTRACE_O_TRACESYSGOOD))
		return -errno;
	/* wait_stop() takes them. */
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	pthread_sigmask(SIG_BLOCK, &child, &ret->own);
	urgent_begin(&ret->urgent);
	int error = trace(PTRACE_INTERRUPT, ret, 0, NULL) ? -errno : 0;
	ret->since = clock_of(CLOCK_MONOTONIC);
	error = error ? error : wait_interrupt(ret, BACK_NS);
	/* Nobody has called anything yet. */
	error = error == -ETIMEDOUT ? -ETIME : error;
	error = error ? error : read_state(ret);
	if (error) {
		/* It can be let go only while it stands; if it does not stand, our end lets it go. */
		trace(PTRACE_DETACH, ret, 0, NULL);
		urgent_end(&ret->urgent);
		pthread_sigmask(SIG_SETMASK, &ret->own, NULL);
		return error;
	}
	return 0;
}

/* Is the stack mapped below? Read with the rights that the thread has: /proc/PID/mem shows guard pages, too. */
static bool has_room(int64_t tid, uint64_t address)
{
	enum { PAGE_BYTES = 4096, PAGES = FRAME_STACK_BYTES / PAGE_BYTES };
	unsigned char bytes[PAGES];
	struct iovec here = {bytes, sizeof bytes}, there[PAGES];

	for (size_t i = 0; i < PAGES; i++)
		there[i] = (struct iovec){(void *)(uintptr_t)(address - (i + 1) * PAGE_BYTES), 1};
	return process_vm_readv((pid_t)tid, &here, 1, there, PAGES, 0) == PAGES;
}

/* The stack that grows, and what lies below it. */
struct growing {
	uint64_t sp, begin, end, below;
	bool found;
};

static bool take_mapping(void *context, char *line)
{
	struct growing *growing = context;
	char *at;
	uint64_t begin = strtoull(line, &at, 16), end = *at == '-' ? strtoull(at + 1, NULL, 16) : 0;

	growing->found = growing->sp >= begin && growing->sp < end && strstr(line, "[stack]");
	if (growing->found) {
		growing->begin = begin;
		growing->end = end;
		return false;
	}
	growing->below = end;
	return begin <= growing->sp;
}

/* May what is mapped become larger by so much? */
static bool may_take(int64_t pid, uint64_t bytes)
{
	struct rlimit most;
	char text[64];

	return prlimit((pid_t)pid, RLIMIT_AS, NULL, &most) == 0 &&
	       (most.rlim_cur == RLIM_INFINITY || (process_status(pid, "VmSize", text, sizeof text) &&
						   strtoull(text, NULL, 10) * 1024 + bytes <= most.rlim_cur));
}

/* A main thread's stack is mapped as far as it has been used, and grows when it is used further down: by the process's own limit, and not
 * near to what lies below. `lowest`: how far down. */
static bool may_grow(int64_t pid, uint64_t sp, uint64_t *lowest)
{
	struct growing growing = {.sp = sp};
	struct rlimit most;

	*lowest = (sp - GROWS_BYTES) & ~4095ull;
	if (process_lines(pid, "maps", take_mapping, &growing) || !growing.found || *lowest >= growing.begin ||
	    prlimit((pid_t)pid, RLIMIT_STACK, NULL, &most))
		return false;
	return *lowest > growing.below && *lowest - growing.below > GAP_BYTES &&
	       growing.end - *lowest <= most.rlim_cur && may_take(pid, growing.begin - *lowest);
}

bool stopped_has_room(int64_t pid, int64_t tid, uint64_t sp)
{
	uint64_t lowest;

	return has_room(tid, sp) || may_grow(pid, sp, &lowest);
}

/* A look at its lowest place by /proc/PID/mem has the kernel grow it: what is called meets no limit then that could end the process. */
static bool make_room(const struct stopped *thread, uint64_t address)
{
	uint64_t lowest;
	char byte;

	if (has_room(thread->tid, address))
		return true;
	return may_grow(thread->pid, thread->state.registers.rsp, &lowest) &&
	       python_read(&thread->process->memory, lowest, &byte, sizeof byte) && has_room(thread->tid, address);
}

int stopped_lay(struct stopped *thread, uint64_t leave)
{
	unsigned char bytes[FRAME_BYTES_MOST];
	uint64_t address;
	size_t size = frame_build(&thread->state, bytes, &address);

	if (!size)
		return -ENOTSUP;
	memcpy(bytes, &leave, sizeof leave);
	if (!make_room(thread, address) || !process_memory_write(thread->process, address, bytes, size))
		return -ENOMEM;
	thread->frame = address;
	thread->leave = leave;
	thread->laid = true;
	return 0;
}

/* Signals that do not come from what we call wait until it is over. */
static int block_signals(struct stopped *thread)
{
	uint64_t mask = ~0ull;
	const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};

	for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
		mask &= ~(1ull << (faults[i] - 1));
	if (!thread->blocked && trace(PTRACE_SETSIGMASK, thread, sizeof mask, &mask))
		return -errno;
	thread->blocked = true;
	return 0;
}

/* How long it has had a processor; -1 where the kernel does not tell. */
static int64_t ran_ns(const struct stopped *thread)
{
	char name[64];
	size_t bytes;

	snprintf(name, sizeof name, "task/%lld/schedstat", (long long)thread->tid);
	char *text = process_file(thread->pid, name, 64, &bytes);
	int64_t ns = text ? strtoll(text, NULL, 10) : -1;
	free(text);
	return ns;
}

/* The thread has not come back yet: is it useless to wait longer? */
static bool is_late(struct stopped *thread)
{
	int64_t waited = clock_of(CLOCK_MONOTONIC) - thread->called;

	/* Counts from the first look on. A thread that comes back before that is never looked at. */
	if (!thread->ran)
		thread->ran = ran_ns(thread);
	if (waited < CALL_NS)
		return false;
	char state = process_task_state(thread->pid, thread->tid);
	int64_t ran = thread->ran < 0 ? waited : ran_ns(thread) - thread->ran;
	/* If it were torn out of the middle of the call, it would keep its locks for ever. In an uninterruptible wait
	 * (D) it cannot be stopped anyway. */
	bool computes = state != 'D' && ran >= RUNS_MOST_NS;
	thread->late = computes || (state != 'R' && state != 'D' && waited >= SLEEPS_MOST_NS);
	thread->left = !thread->late && waited >= HELD_UP_MOST_NS;
	return thread->late || thread->left;
}

/* Waits for the next stop of one that runs. */
static int await_stop(struct stopped *thread, int *status)
{
	int error;

	do
		error = wait_stop(thread, status, LOOK_NS);
	while (error == -ETIMEDOUT && !is_late(thread));
	return error;
}

/* Lets it run to its next system call, or out of it. */
static int to_syscall(struct stopped *thread, struct user_regs_struct *registers)
{
	int status, error, signal = 0;

	for (int i = 0; i < STEPS_MOST; i++) {
		if (trace(PTRACE_SYSCALL, thread, 0, (void *)(intptr_t)signal))
			return -errno;
		error = await_stop(thread, &status);
		if (error)
			return error;
		signal = 0;
		if (WSTOPSIG(status) == SYSCALL_STOP)
			return trace(PTRACE_GETREGS, thread, 0, registers) ? -errno : 0;
		if (!EVENT(status))
			return -EFAULT; /* a fault in what we call; nothing else comes through the mask */
	}
	return -ETIMEDOUT;
}

static struct user_regs_struct begin_call(struct stopped *thread)
{
	struct user_regs_struct r = thread->state.registers;

	thread->called = clock_of(CLOCK_MONOTONIC);
	thread->ran = 0;
	r.orig_rax = (unsigned long long)-1;
	r.eflags &= ~0x500ull; /* single step, direction */
	r.rbp = 0;
	r.rax = 0;
	thread->between = false;
	return r;
}

int stopped_syscall(struct stopped *thread, uint64_t function, long number, const uint64_t arguments[6], int64_t *ret)
{
	struct user_regs_struct r = begin_call(thread), seen;
	int error;

	/* The way back is its return address. */
	r.rsp = thread->frame;
	r.rip = function;
	r.rdi = arguments[0], r.rsi = arguments[1], r.rdx = arguments[2];
	r.rcx = arguments[3], r.r8 = arguments[4], r.r9 = arguments[5];
	thread->stub = (struct stopped_stub){0};
	if (trace(PTRACE_SETREGS, thread, 0, &r))
		return -errno;
	error = block_signals(thread);
	error = error ? error : to_syscall(thread, &seen);
	if (!error && (long)seen.orig_rax != number)
		error = -EFAULT;
	error = error ? error : to_syscall(thread, &seen);
	if (!error)
		*ret = (int64_t)seen.rax;
	return error;
}

static bool has_come_back(const struct stopped *thread)
{
	uint32_t is = 0;

	return thread->stub.back && python_read(&thread->process->memory, thread->stub.back, &is, sizeof is) && is;
}

/* The error of a stub that could not begin, and waits; 0: none is known. Once the thread has gone on where it was,
 * anything may lie there; it must not be called again then, either. */
static int failed_below(const struct stopped *thread)
{
	struct stopped_return back;
	int64_t error;

	if (!python_read(&thread->process->memory, thread->stub.back, &back, sizeof back) || back.called || back.is ||
	    !python_read(&thread->process->memory, thread->frame - STOPPED_FAILED_BELOW, &error, sizeof error))
		return 0;
	return error < 0 && error >= -4095 ? (int)error : 0;
}

/* Until it has come back; *failed: or could not begin. */
static int await_back(struct stopped *thread, int *failed)
{
	struct timespec slice = {0, BACK_SLICE_NS};
	int64_t began = clock_of(CLOCK_MONOTONIC), waited = 0, look = LOOK_NS;
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	while (!has_come_back(thread) && !*failed) {
		int status;
		pid_t found = waitpid((pid_t)thread->tid, &status, __WALL | WNOHANG);

		if ((found < 0 && errno != EINTR) || (found > 0 && !WIFSTOPPED(status)))
			return -ESRCH;
		if (found > 0 && !EVENT(status))
			return -EFAULT; /* a fault in what we call; nothing else comes through the mask */
		if (found > 0 && trace(PTRACE_CONT, thread, 0, NULL))
			return -errno;
		if (waited > look) {
			if (is_late(thread))
				return -ETIMEDOUT;
			*failed = failed_below(thread);
			look = waited + LOOK_NS;
		}
		if (waited > SPIN_NS) {
			sigtimedwait(&child, NULL, &slice);
			slice.tv_nsec = slice.tv_nsec < BACK_SLICE_MOST_NS ? 2 * slice.tv_nsec : slice.tv_nsec;
		}
		waited = clock_of(CLOCK_MONOTONIC) - began;
	}
	return 0;
}

/* It stands. If we took too long, its wait was over, and it is where it was before we came: neither in the stub nor in what that calls. */
static bool is_home(const struct stopped *thread, const struct user_regs_struct *now)
{
	struct stopped_return back;

	return thread->stub.back && (now->rip < thread->stub.begin || now->rip > thread->stub.end) &&
	       python_read(&thread->process->memory, thread->stub.back, &back, sizeof back) &&
	       (back.is || !back.called);
}

/* It runs; then it is interrupted. */
static int to_back(struct stopped *thread)
{
	int failed = 0, error = trace(PTRACE_CONT, thread, 0, NULL) ? -errno : await_back(thread, &failed);

	if (!error && trace(PTRACE_INTERRUPT, thread, 0, NULL))
		error = -errno;
	error = error ? error : wait_interrupt(thread, BACK_NS);
	thread->between = !error;
	/* One that the job itself stops stands, too. */
	thread->held = error == -EAGAIN;
	return thread->held || !error ? failed : error;
}

/* A thread that is stopped at each of a function's system calls stands for long: pthread_create makes a dozen. So it runs, notes that it has
 * come back, and waits a moment to be interrupted: by ppoll, which leaves what the kernel knows of the call in which it was found. If nobody
 * interrupts it, it goes back by itself. */
int stopped_call(struct stopped *thread, const struct stopped_stub *stub, uint64_t function,
		 const uint64_t arguments[4])
{
	const struct stopped_return back = {.wait.tv_nsec = COME_BACK_NS};
	const int64_t no_error = 0;
	struct user_regs_struct r = begin_call(thread);
	int error;

	r.rsp = thread->frame + 8;
	r.rip = stub->enter;
	r.r12 = stub->data;
	r.r13 = function;
	r.rdi = arguments[0], r.rsi = arguments[1], r.rdx = arguments[2], r.rcx = arguments[3];
	if (!process_memory_write(thread->process, stub->back, &back, sizeof back) ||
	    !process_memory_write(thread->process, thread->frame - STOPPED_FAILED_BELOW, &no_error, sizeof no_error))
		return -EFAULT;
	if (trace(PTRACE_SETREGS, thread, 0, &r))
		return -errno;
	error = block_signals(thread);
	thread->stub = *stub;
	return error ? error : to_back(thread);
}

bool stopped_waits(const struct stopped *thread)
{
	struct user_regs_struct now = {0};

	return !thread->held && trace(PTRACE_GETREGS, thread, 0, &now) == 0 && !is_home(thread, &now);
}

/* The thread stands, with its own registers. Lets the kernel decide how the system call goes on in which it was found: it knows how
 * much of a sleep is left. It looks at that only where it hands out signals, so the thread has to stand there (`between`). Where that does not work, the
 * call begins anew. */
static void resume_call(struct stopped *thread)
{
	if (trace(PTRACE_INTERRUPT, thread, 0, NULL) || trace(PTRACE_CONT, thread, 0, NULL))
		return;
	if (wait_interrupt(thread, STOP_NS) == 0)
		trace(PTRACE_SETREGS, thread, 0, &thread->state.registers);
}

static int put_back(struct stopped *thread)
{
	struct iovec xstate = {thread->state.xstate, thread->state.xstate_bytes};
	struct user_regs_struct now, again = frame_registers(&thread->state);
	bool runs = trace(PTRACE_GETREGS, thread, 0, &now) != 0;
	int error = 0;

	if (runs)
		error = trace(PTRACE_INTERRUPT, thread, 0, NULL) ? -errno : wait_interrupt(thread, BACK_NS);
	thread->between = runs ? !error : thread->between;
	/* One that the job itself stops stands, too. */
	if (error && error != -EAGAIN)
		return error;
	if (trace(PTRACE_GETREGS, thread, 0, &now))
		return -errno;
	if (is_home(thread, &now) || thread->left)
		return 0;
	if (trace(PTRACE_SETREGSET, thread, NT_X86_XSTATE, &xstate) ||
	    trace(PTRACE_SETSIGMASK, thread, sizeof thread->state.mask, &thread->state.mask))
		return -errno;
	/* A call that did not come back may have slept itself. Then the kernel knows only how that call goes on. */
	bool resumes = !thread->late;
	if (trace(PTRACE_SETREGS, thread, 0, resumes && thread->between ? &thread->state.registers : &again))
		return -errno;
	if (resumes && !thread->between)
		resume_call(thread);
	return 0;
}

int stopped_end(struct stopped *thread)
{
	int error = thread->laid ? put_back(thread) : 0;

	thread->until = clock_of(CLOCK_MONOTONIC);
	trace(PTRACE_DETACH, thread, 0, NULL);
	urgent_end(&thread->urgent);
	pthread_sigmask(SIG_SETMASK, &thread->own, NULL);
	return error;
}

#endif
