/* confine.c - see confine.h. */
#include "confine.h"
#include "proto/base/seccomp.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define CPU_SECONDS 12
#define DATA_BYTES (1ull << 30) /* files that are mapped to be read do not count */

/* A sanitizer makes calls of its own, and tells what it finds on standard error. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define IS_SANITIZED 1
#else
#define IS_SANITIZED 0
#endif
#define OUT_OF_THE_WAY 64 /* of the numbers that it keeps */

/* Whatever the caller has inherited (a terminal, sockets, files) is not for this process. */
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

#define ARGUMENT(n) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[n]))
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
	seccomp_limit(RLIMIT_CORE, 0);
	seccomp_limit(RLIMIT_FSIZE, 0);
	seccomp_limit(RLIMIT_CPU, CPU_SECONDS);
#if IS_SANITIZED
	return 0;
#elif defined SECCOMP_ARCHITECTURE
	seccomp_limit(RLIMIT_DATA, DATA_BYTES);
	static struct sock_filter filter[] = {
		SECCOMP_HEAD,
		SECCOMP_ALLOW(read),
		SECCOMP_ALLOW(pread64),
		ALLOW_WITH(write, 0, CONFINED_TO),
		SECCOMP_ALLOW(close),
		SECCOMP_ALLOW(fstat),
		SECCOMP_ALLOW(newfstatat),
		SECCOMP_ALLOW(lseek),
		SECCOMP_ALLOW(munmap),
		SECCOMP_ALLOW(mremap),
		SECCOMP_ALLOW(madvise),
		SECCOMP_ALLOW(brk),
		SECCOMP_ALLOW(futex),
		ALLOW_WITH(fcntl, 1, F_GETFD),
		SECCOMP_ALLOW(sysinfo),
		SECCOMP_ALLOW(exit_group),
#ifdef __NR_open
		ALLOW_WITHOUT(open, 1, O_WRONLY | O_RDWR | O_CREAT | O_TRUNC),
#endif
		ALLOW_WITHOUT(openat, 2, O_WRONLY | O_RDWR | O_CREAT | O_TRUNC),
		ALLOW_WITHOUT(mmap, 2, PROT_EXEC),
		ALLOW_WITHOUT(mprotect, 2, PROT_EXEC),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
	};
	return seccomp_lock(filter, sizeof filter / sizeof *filter);
#else
	return -1;
#endif
}
