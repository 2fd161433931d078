/* urgent.c - see urgent.h. */
#include "urgent.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NICE_FIRST (-20)
#define SLICE_NS 100000 /* the shortest that the kernel takes */
#define ACROSS_FORKS 1	/* the only flag that a plain thread may have */

static bool set(const struct urgent_attributes *attributes)
{
	return syscall(SYS_sched_setattr, 0, attributes, 0) == 0;
}

void urgent_begin(struct urgent *ret)
{
	struct urgent_attributes first;

	*ret = (struct urgent){.slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0)};
	if (ret->slack > 0)
		prctl(PR_SET_TIMERSLACK, 1ul, 0, 0, 0);
	if (syscall(SYS_sched_getattr, 0, &ret->was, sizeof ret->was, 0) || ret->was.policy != SCHED_OTHER)
		return;
	ret->was.flags &= ACROSS_FORKS;
	first = ret->was;
	first.nice = NICE_FIRST;
	first.runtime = SLICE_NS;
	ret->is = set(&first);
	if (ret->is)
		return;
	first.nice = ret->was.nice;
	ret->is = set(&first);
}

void urgent_end(struct urgent *urgent)
{
	if (urgent->is)
		set(&urgent->was);
	urgent->is = false;
	if (urgent->slack > 0)
		prctl(PR_SET_TIMERSLACK, (unsigned long)urgent->slack, 0, 0, 0);
}
