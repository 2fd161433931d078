/* ranks.h - the ranks of one job beside each other: how long each waits in collective operations for the others, and for whom. One thread.
 *
 * A collective operation is done on all ranks at nearly the same time. So the rank that has it in flight for the shortest time came last, and that time is
 * what the operation itself took; what the others had it in flight for longer they waited. (The Distributed View of TensorBoard's plugin for
 * torch.profiler counts in the same way.) Clocks of several machines need not agree for it.
 *
 * Of a wait counts what nothing else was done in: on a device its exposed communication, else what the step's thread was in no other operator. */
#ifndef PROFD_CLIENT_COMPARE_RANKS_H
#define PROFD_CLIENT_COMPARE_RANKS_H

#include "side.h"
#include "store/breakdown/breakdown.h"

/* One rank. ns and counts over all units that every rank has recorded. */
struct ranks_member {
	struct side_capture *capture; /* of the side: its first one */
	int64_t rank;		      /* -1: not known */
	double units;		      /* steps */
	double wall;
	double waits;	/* for others */
	double outside; /* of these, what stands in the row "outside of operators" of the host */
	double keeps;	/* that others waited for it, on average of them */
	double calls;	/* operations that were compared, in which it took part */
	double last;	/* of these, in which it came last, by a margin that matters */
	bool device;	/* its device was recorded, and communicates */
	double host[HOST_ROWS], devices[DEVICE_ROWS]; /* rows of the breakdown; devices: of its first */
	bool has_host, has_devices;
};

/* Operations that are alike. Means are of the calls that were compared. */
struct ranks_operation {
	char *operation, *group, *dtype; /* owned; NULL: not known */
	int64_t bytes, size;		 /* -1, 0: not known */
	double calls;
	double transfer, wait,
		most; /* ns: the shortest time in flight; how much longer, on average of the ranks, and at most; sums over the calls */
};

struct ranks {
	struct side *side;
	struct ranks_member *members; /* by rank; owned */
	size_t count;
	size_t *member_of;		    /* of each capture of the side; owned */
	int64_t world_size;		    /* ranks that the job has; 0: not known */
	size_t left_out;		    /* units that not every rank has recorded */
	struct ranks_operation *operations; /* the longest wait first; owned */
	size_t operation_count;
	double units, wall;	    /* steps that every rank has recorded; ns of one, on average */
	double calls;		    /* that were compared, each once */
	double alone;		    /* calls that were not: on other ranks there is none that would be the same, */
	double unknown;		    /* or it is not known when it ran */
	size_t last;		    /* index of the member that the others wait for; SIZE_MAX: there is none such */
	double least, most;	    /* what the others waited for it, as parts of a step, in the steps */
	bool in_turn;		    /* they wait, but in most steps for no single one */
	const char *row;	    /* the title of what that member does longer than the others; NULL: nothing does */
	double row_own, row_others; /* ns of a step */
};

/* EXIT_DONE, or an exit code after its sentence. ranks_free in every case. */
int ranks_compare(struct side *side, struct ranks *ret);
void ranks_free(struct ranks *ranks);

#endif
