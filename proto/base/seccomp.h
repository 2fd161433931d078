/* seccomp.h - parts of a filter of system calls, and limits: for a process that is about to read data of strangers. */
#ifndef PROFD_PROTO_BASE_SECCOMP_H
#define PROFD_PROTO_BASE_SECCOMP_H

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/syscall.h>

/* Not defined for other processors: there is no filter there. */
#if defined __x86_64__
#define SECCOMP_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define SECCOMP_ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

/* The beginning of a filter. Calls of another architecture (32 bits) end the process; for other calls it loads their
 * number. */
#define SECCOMP_HEAD                                                                                                   \
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),                                       \
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SECCOMP_ARCHITECTURE, 1, 0),                                       \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL),                                                           \
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define SECCOMP_ALLOW(name)                                                                                            \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_##name, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/* Sets the filter for the rest of the process's life. 0, or -1 and errno: the kernel has no filters, or refuses. */
int seccomp_lock(struct sock_filter *filter, size_t count);
/* Lowers a limit (RLIMIT_...), soft and hard, to at most this. A lower limit stays, and so does one that may not be
 * changed. */
void seccomp_limit(int what, rlim_t most);

#endif
