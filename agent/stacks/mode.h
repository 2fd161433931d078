/* mode.h - which modules of torch the function of a frame of Python names, and in which mode each is: training or evaluation, as module.train() and
 * module.eval() have left it. Bounds and distrust as in proto/python/dict.h: what cannot be told is not there. */
#ifndef PROFD_AGENT_STACKS_MODE_H
#define PROFD_AGENT_STACKS_MODE_H

#include "proto/python/dict.h"

#define MODES_MOST 8

/* A module. Another one that comes to lie at its place has its dict of parameters elsewhere, mostly. */
struct mode {
	uint64_t object, type, parameters;
	bool training;
};

struct modes {
	uint32_t count;
	struct mode items[MODES_MOST];
};

struct mode_reader {
	struct python python;
	uint64_t yes, no, cell;	       /* True, False, and the type of the cells in which functions share variables */
	uint32_t training, parameters; /* where modules mostly have these attributes */
};

/* Adds those that the function's variables hold, the attributes of its first argument that it names, and the global variables that it names. What
 * torch.compile has made of a module counts as that module. At most `reads` reads of memory. */
void modes_of_frame(struct mode_reader *reader, uint64_t frame, uint64_t code, uint64_t reads, struct modes *ret);

#endif
