/* opened.h - start/end ranges that are open: they belong to no thread's stack and may end on another thread. */
#ifndef PROFD_AGENT_NVTX_OPENED_H
#define PROFD_AGENT_NVTX_OPENED_H

#include <stdint.h>

/* How many may be open at a time; further ones are counted as too_deep. */
#define NVTX_OPENED 65536u

/* What the opening thread knows of a range. */
struct nvtx_opened {
	uint64_t start;
	uint64_t id; /* unique in the capture */
	uint64_t payload;
	uint32_t generation; /* of the recording; 0 = not recorded: only its end counts, as that of a step */
	uint32_t step;
	uint32_t thread;
	uint32_t name, domain, category, color;
	uint8_t payload_type;
	uint8_t ends_step;
};

/* Maps the table, once. 0 or a negative errno. The agent's thread. */
int nvtx_opened_init(void);

/* Enters a range and returns its handle, which is never given twice in a process's life; 0 where there is no room. */
uint64_t nvtx_opened_add(const struct nvtx_opened *range);

/* Takes a range out. 1 with *ret_range set, or 0 where no range has this handle (it has ended, was written as clipped,
 * or is not ours). Exactly one caller gets each range. */
int nvtx_opened_take(uint64_t handle, struct nvtx_opened *ret_range);

/* Takes out any range, walking the table from *at (0 at first). 1, or 0 at the end of the table. */
int nvtx_opened_sweep(uint32_t *at, struct nvtx_opened *ret_range);

#endif
