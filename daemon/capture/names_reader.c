/* names_reader.c - see names_reader.h. A process with one thread.
 *
 * The demangler is libiberty's: it is that of the tools people compare with, and its callback form takes no memory from
 * the heap. Neither its time nor its stack is bounded: there are names of 120 bytes that it reads for minutes
 * ("cvT_IT_I..." is read twice on every level), and of 4 KB for which it wants an array of 15 MB on its stack. A timer
 * of processor time ends the reading of a name by a jump out of the signal's handler; a stack that is used up ends the
 * process. */
#include "names_reader.h"
#include "proto/base/clock.h"
#include "proto/base/seccomp.h"

#include <errno.h>
#include <libiberty/demangle.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define ONE_NAME_NS 20000000u
#define STACK_BYTES (8u << 20)
#define ADDRESS_BYTES (128u << 20)
/* Far more than the names of one capture may take, in case the timer fails. */
#define CPU_SECONDS 10

static sigjmp_buf out;
static volatile sig_atomic_t inside;
static timer_t timer;

static void on_timer(int signal_number)
{
	(void)signal_number;
	if (inside) {
		inside = 0;
		siglongjmp(out, 1);
	}
}

/* Ends the process quietly: with no line in the kernel's log and no core file. */
static void on_fault(int signal_number)
{
	(void)signal_number;
	_exit(1);
}

/* A service may not be allowed to set limits; what it inherits is bounded as well, and the filter below has no exceptions. */
static void limit_all(void)
{
	seccomp_limit(RLIMIT_CORE, 0);
	seccomp_limit(RLIMIT_FSIZE, 0);
	seccomp_limit(RLIMIT_NPROC, 0);
	seccomp_limit(RLIMIT_CPU, CPU_SECONDS);
	seccomp_limit(RLIMIT_STACK, STACK_BYTES);
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
	seccomp_limit(RLIMIT_AS, ADDRESS_BYTES);
#endif
}

static int handlers(void)
{
	static char stack[65536];
	const stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
	struct sigaction clock = {.sa_handler = on_timer}, fault = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK};
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
	sigemptyset(&clock.sa_mask);
	sigemptyset(&fault.sa_mask);
	return sigaltstack(&other, NULL) || sigaction(SIGSEGV, &fault, NULL) || sigaction(SIGBUS, &fault, NULL) ||
	       sigaction(SIGALRM, &clock, NULL) || timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &timer);
}

/* From here on the process can only read, write, set its timer and end. */
static int lock_up(void)
{
#ifdef __SANITIZE_THREAD__
	return 0; /* the sanitizer maps memory of its own all the time */
#elif defined SECCOMP_ARCHITECTURE
	static struct sock_filter filter[] = {
		SECCOMP_HEAD,
		SECCOMP_ALLOW(read),
		SECCOMP_ALLOW(write),
		SECCOMP_ALLOW(timer_settime),
		SECCOMP_ALLOW(clock_gettime),
		SECCOMP_ALLOW(rt_sigprocmask),
		SECCOMP_ALLOW(rt_sigreturn),
		SECCOMP_ALLOW(restart_syscall),
		SECCOMP_ALLOW(exit),
		SECCOMP_ALLOW(exit_group),
#ifdef __SANITIZE_ADDRESS__
		SECCOMP_ALLOW(sigaltstack), /* the sanitizer's siglongjmp asks where the stacks are */
#endif
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL),
	};
	return seccomp_lock(filter, sizeof filter / sizeof *filter);
#else
	return -1;
#endif
}

static void take(const char *part, size_t n, void *context)
{
	struct names_answer *answer = context;
	if (n > sizeof answer->text - answer->n) {
		inside = 0;
		siglongjmp(out, 1);
	}
	memcpy(answer->text + answer->n, part, n);
	answer->n += (uint32_t)n;
}

static uint32_t demangle(const char *mangled, struct names_answer *answer)
{
	/* The library's own limit would refuse names of 1 KiB. */
	const int options = DMGL_PARAMS | DMGL_ANSI | DMGL_NO_RECURSE_LIMIT;
	answer->n = 0;
	if (sigsetjmp(out, 1))
		return NAMES_REFUSED;
	inside = 1;
	bool read = cplus_demangle_v3_callback(mangled, options, take, answer) != 0;
	inside = 0;
	return read ? NAMES_READ : NAMES_NONE;
}

static void read_names(void)
{
	static char mangled[NAMES_MANGLED_BYTES + 1];
	static struct names_answer answer;
	const struct itimerspec one = {.it_value = {.tv_nsec = ONE_NAME_NS}}, none = {0};
	ssize_t n;
	while ((n = read(0, mangled, NAMES_MANGLED_BYTES)) > 0) {
		mangled[n] = 0;
		uint64_t began = clock_thread();
		timer_settime(timer, 0, &one, NULL);
		answer.verdict = demangle(mangled, &answer);
		timer_settime(timer, 0, &none, NULL);
		answer.spent_ns = clock_thread() - began;
		if (answer.verdict != NAMES_READ)
			answer.n = 0;
		size_t bytes = offsetof(struct names_answer, text) + answer.n;
		if (write(0, &answer, bytes) != (ssize_t)bytes)
			break;
	}
}

void names_reader(int argc, char **argv)
{
	if (argc != 2 || strcmp(argv[1], NAMES_READER_ARGUMENT) != 0)
		return;
	/* Closes what the daemon may have left open at the exec. */
	for (int fd = 1; fd < 1024; fd++)
		close(fd);
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	limit_all();
	if (handlers() == 0 && lock_up() == 0)
		read_names();
	_exit(0);
}
