/* seccomp.h - what a process gives up before it reads what strangers have written: parts of a filter of its system calls, and limits. */
#ifndef PROFD_PROTO_BASE_SECCOMP_H
#define PROFD_PROTO_BASE_SECCOMP_H

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/syscall.h>

/* Not defined: this processor's number is not known here, and there is no filter. */
#if defined __x86_64__
#define SECCOMP_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define SECCOMP_ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

/* The beginning of a filter. Calls of another processor (x32, 32 bits) end the process; of other calls it loads the
 * number. */
#define SECCOMP_HEAD                                                                                                   \
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),                                       \
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SECCOMP_ARCHITECTURE, 1, 0),                                       \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL),                                                           \
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define SECCOMP_ALLOW(name)                                                                                            \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_##name, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/* The filter holds for the rest of the process's life. 0, or -1 and errno: this kernel has none, or does not let us. */
int seccomp_lock(struct sock_filter *filter, size_t count);
/* Lowers a limit (RLIMIT_...), soft and hard, to at most this; one that is lower stays. Where that is not allowed it stays, too. */
void seccomp_limit(int what, rlim_t most);

#endif
