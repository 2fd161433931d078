/* occupancy.h - how much of a multiprocessor a kernel can fill. No state. */
#ifndef PROFD_CLIENT_READER_OCCUPANCY_H
#define PROFD_CLIENT_READER_OCCUPANCY_H

#include <stdint.h>

/* A device, as CUPTI describes it; 0 = not told. */
struct occupancy_device {
	int64_t capability_major, capability_minor;
	int64_t multiprocessors, warp, max_threads;
	int64_t max_blocks; /* as max_threads of one multiprocessor; 0: as many as its capability has, where that is known */
	int64_t registers, shared; /* of one multiprocessor; bytes */
	int64_t shared_block;	   /* bytes that a block may have without asking for more */
};

struct occupancy_kernel {
	int64_t blocks, threads; /* of the grid; of a block */
	int64_t registers;	 /* of a thread */
	int64_t shared;		 /* bytes of a block, static and dynamic */
};

/* Most shared memory that a block can have where it asks for it, in bytes; 0 where it is not known. */
int64_t occupancy_shared_most(const struct occupancy_device *d);
/* Most blocks of the kernel that one multiprocessor runs at a time; -1 where it cannot be told. */
int64_t occupancy_blocks(const struct occupancy_device *d, const struct occupancy_kernel *k);
/* Threads on a multiprocessor beside the most that it can have, 0..1: of as many blocks as it gets of the grid on
 * average, or as many as it can run. This is Kineto's "est. achieved occupancy" (libkineto, KernelOccupancy). -1:
 * cannot be told. */
double occupancy_achieved(const struct occupancy_device *d, const struct occupancy_kernel *k);

#endif
