/* collectives.h - what torch says of operations of several processes, as the arguments that torch.profiler gives them: at each
 * record_param_comms, and at the kernels that were launched in it. Read-only once found: many threads may look. */
#ifndef PROFD_CLIENT_EXPORT_CHROME_COLLECTIVES_H
#define PROFD_CLIENT_EXPORT_CHROME_COLLECTIVES_H

#include "client/reader/reader.h"
#include "client/export/buffer.h"
#include "names.h"

#include <stddef.h>
#include <stdint.h>

struct collective {
	int64_t operator, in_elements, out_elements, sequence;
	/* Ids of texts; 0 = none. */
	int64_t name, group_name, description, ranks, dtype, in_split, out_split;
	int64_t group_size, rank;
	unsigned asynchronous, unknown;
};

struct collectives {
	struct collective *all; /* by operator */
	size_t count;
};

/* 0 or a negative errno; none in files that have no such table. */
int collectives_find(struct collectives *c, const struct reader *r);
void collectives_deinit(struct collectives *c);
/* That of an operator; NULL: it is none. */
const struct collective *collectives_of(const struct collectives *c, int64_t id);
/* `,"Collective name":"allreduce",...`; of a kernel torch writes fewer. */
void collective_put(const struct collective *of, const struct names *names, struct buffer *b, bool kernel);

#endif
