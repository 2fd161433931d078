/* confine.c - see confine.h. */
#include "confine.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CPU_SECONDS 12
#define DATA_BYTES (1ull << 30) /* files that are mapped to be read do not count */

#if defined __x86_64__
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

/* A sanitizer makes calls of its own, and tells what it finds on standard error. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define IS_SANITIZED 1
#else
#define IS_SANITIZED 0
#endif
#define OUT_OF_THE_WAY 64 /* of the numbers that it keeps */

/* Whatever the caller has inherited (a terminal, sockets, files), it is not for this. */
int confine_descriptors(int to, int memory)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL))
		return -1;
	to = fcntl(to, F_DUPFD, OUT_OF_THE_WAY);
	memory = fcntl(memory, F_DUPFD, OUT_OF_THE_WAY);
	if (to < 0 || memory < 0 || dup2(to, CONFINED_TO) < 0 || dup2(memory, CONFINED_MEMORY) < 0)
		return -1;
	closefrom(IS_SANITIZED ? STDERR_FILENO + 1 : CONFINED_MEMORY + 1);
	return 0;
}

static void limit(int what, rlim_t most)
{
	struct rlimit value;

	if (getrlimit((__rlimit_resource_t)what, &value))
		return;
	if (value.rlim_max > most)
		value.rlim_max = most;
	value.rlim_cur = value.rlim_max;
	setrlimit((__rlimit_resource_t)what, &value);
}

#define ARGUMENT(n) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[n]))
#define ALLOW(name) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_##name, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
/* Allowed where an argument is this. */
#define ALLOW_WITH(name, argument, value)                                                                              \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_##name, 0, 4), ARGUMENT(argument),                                    \
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),    \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
/* Allowed where an argument has none of these bits. */
#define ALLOW_WITHOUT(name, argument, bits)                                                                            \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_##name, 0, 4), ARGUMENT(argument),                                    \
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),    \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

int confine_calls(void)
{
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_FSIZE, 0);
	limit(RLIMIT_CPU, CPU_SECONDS);
#if IS_SANITIZED
	return 0;
#elif defined ARCHITECTURE
	limit(RLIMIT_DATA, DATA_BYTES);
	static struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(read),
		ALLOW(pread64),
		ALLOW_WITH(write, 0, CONFINED_TO),
		ALLOW(close),
		ALLOW(fstat),
		ALLOW(newfstatat),
		ALLOW(lseek),
		ALLOW(munmap),
		ALLOW(mremap),
		ALLOW(madvise),
		ALLOW(brk),
		ALLOW(futex),
		ALLOW_WITH(fcntl, 1, F_GETFD),
		ALLOW(sysinfo),
		ALLOW(exit_group),
#ifdef __NR_open
		ALLOW_WITHOUT(open, 1, O_WRONLY | O_RDWR | O_CREAT | O_TRUNC),
#endif
		ALLOW_WITHOUT(openat, 2, O_WRONLY | O_RDWR | O_CREAT | O_TRUNC),
		ALLOW_WITHOUT(mmap, 2, PROT_EXEC),
		ALLOW_WITHOUT(mprotect, 2, PROT_EXEC),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
	};
	const struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
#else
	return -1;
#endif
}
