/* sandbox.c - steps, then forbids itself by seccomp all system calls but those that it makes, and steps on.
 *
 *     sandbox [--how=H] [--before=N] [--after=N] [--step-ms=T] [--go=FILE] [--end=FILE]
 *
 * H: kill      the filter holds for all threads, what it forbids ends the process
 *    errno     the same; what it forbids fails with EPERM
 *    alone     it holds for the thread that installs it only
 *    thread    a thread that does nothing else installs it for itself; in the end it marks, and what it forbids ends the process
 * The filter comes after N steps, and where FILE go is named, not before that is there; where FILE end is named the job ends as soon
 * as it is there. With `thread` nothing is marked before the steps are done. Prints one line of JSON: how, steps. */
#include "workload.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>

static int forbid(const char *how)
{
	static const int allowed[] = {
		SYS_read,      SYS_write,	    SYS_close,	      SYS_openat, SYS_newfstatat, SYS_fstat,
		SYS_mmap,      SYS_munmap,	    SYS_brk,	      SYS_futex,  SYS_nanosleep,  SYS_clock_nanosleep,
		SYS_exit,      SYS_exit_group,	    SYS_rt_sigreturn, SYS_getpid, SYS_gettid,	  SYS_sched_yield,
		SYS_faccessat, SYS_restart_syscall, SYS_getrandom,
#ifdef SYS_access
		SYS_access,
#endif
	};
	enum { COUNT = sizeof allowed / sizeof *allowed };
	struct sock_filter code[COUNT + 3];
	struct sock_fprog program = {COUNT + 3, code};
	code[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, nr));
	for (int i = 0; i < COUNT; i++)
		code[1 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)allowed[i],
							   (uint8_t)(COUNT - i), 0);
	code[COUNT + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, strcmp(how, "errno") == 0
										? SECCOMP_RET_ERRNO | (uint32_t)EPERM
										: SECCOMP_RET_KILL_PROCESS);
	code[COUNT + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return -1;
	unsigned flags = strstr(how, "alone") ? 0 : (unsigned)SECCOMP_FILTER_FLAG_TSYNC;
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

static _Atomic int stage; /* 1: the thread is confined; 2: it is to mark; 3: it has */

static void *confined(void *unused)
{
	void (*mark)(const char *) = NULL;
	*(void **)&mark = profd_function("profd_mark");
	stage = forbid("kill alone") == 0 ? 1 : -1;
	while (stage == 1)
		wait_until(seconds() + 1e-3);
	for (int i = 0; mark && i < 100; i++)
		mark("confined");
	stage = 3;
	/* The end of a thread makes other calls. */
	for (;;)
		wait_until(seconds() + 1);
	return unused;
}

int main(int argc, char **argv)
{
	(void)argc;
	pthread_t thread;
	const char *how = argument(argv, "how", "kill"), *go = argument(argv, "go", NULL);
	const char *end = argument(argv, "end", "/nonexistent");
	long before = (long)number(argv, "before", 20), after = (long)number(argv, "after", 200), steps = 0;
	double step_time = number(argv, "step-ms", 5) * 1e-3, next = seconds();
	void (*function)(void) = NULL;
	*(void **)&function = profd_function("profd_step");
	fflush(stdout);
	for (; steps < before || (go && access(go, F_OK) != 0); steps++) {
		wait_until(next += step_time);
		if (function)
			function();
	}
	int by_thread = strcmp(how, "thread") == 0;
	if (by_thread ? pthread_create(&thread, NULL, confined, NULL) != 0 : forbid(how) != 0)
		return 1;
	while (by_thread && !stage)
		wait_until(seconds() + 1e-3);
	if (stage < 0)
		return 1;
	for (steps = 0; steps < after && access(end, F_OK) != 0; steps++) {
		wait_until(next += step_time);
		if (function)
			function();
	}
	if (by_thread) {
		stage = 2;
		while (stage != 3)
			wait_until(seconds() + 1e-3);
	}
	/* A new library, and the agent sees it. */
	dlopen("/nonexistent/libtorch_none.so", RTLD_NOW);
	wait_until(seconds() + 0.2);
	printf("{\"how\": \"%s\"}\n", how);
	return 0;
}
