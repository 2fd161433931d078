/* seccomp.c - see seccomp.h. */
#include "seccomp.h"

#include <sys/prctl.h>

int seccomp_lock(struct sock_filter *filter, size_t count)
{
	const struct sock_fprog program = {(unsigned short)count, filter};
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) ? -1 : 0;
}

void seccomp_limit(int what, rlim_t most)
{
	struct rlimit value;
	if (getrlimit((__rlimit_resource_t)what, &value))
		return;
	if (value.rlim_max > most)
		value.rlim_max = most;
	value.rlim_cur = value.rlim_max;
	setrlimit((__rlimit_resource_t)what, &value);
}
