/* urgent.h - a client that keeps a thread of a job standing goes first. On a full machine each switch between the two
 * waits for a processor; this is the client's half. It concerns the calling thread alone, and takes nothing from the
 * job: that thread works for some hundred microseconds. */
#ifndef PROFD_CLIENT_ATTACH_URGENT_H
#define PROFD_CLIENT_ATTACH_URGENT_H

#include <stdbool.h>
#include <stdint.h>

/* The kernel's struct sched_attr, as it was first. */
struct urgent_attributes {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

struct urgent {
	struct urgent_attributes was;
	bool is;   /* and is to be given back */
	int slack; /* ns that its naps may last longer, as it was */
};

/* Takes the highest niceness if the caller may, and for anybody the shortest slice of time: the kernel (Linux 6.12)
 * lets a thread that asks for little begin soon. Naps last no longer than was asked for. */
void urgent_begin(struct urgent *ret);
void urgent_end(struct urgent *urgent);

#endif
