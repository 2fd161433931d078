/* host_events.h - what the process did, as Kineto's traces have it: ranges, marks, operators. A thread has a writer of its own. */
#ifndef PROFD_CLIENT_EXPORT_CHROME_HOST_EVENTS_H
#define PROFD_CLIENT_EXPORT_CHROME_HOST_EVENTS_H

#include "chrome.h"
#include "flows.h"
#include "inputs.h"

#include <sqlite3.h>

/* What the node says that an operator "autograd::engine::evaluate_function: <node>" runs: torch numbers the node only,
 * and Kineto's traces have its number at both. A row stands behind those that it holds, so the node's comes first. */
struct evaluated {
	int64_t id; /* of the operator around the node; 0 = a free place */
	int64_t sequence, forward;
};
#define EVALUATED 256

/* An operator that may be one end of a flow, until its job's turn comes. */
struct candidate {
	uint64_t sequence;
	uint32_t forward_thread;
	bool backward, is_node;
	struct flow_end end;
};

struct host_events {
	struct reader *reader; /* not owned */
	struct inputs inputs;
	const struct chrome_thread *thread; /* of the last operator */
	size_t range_at, operator_at;	    /* in the lists of moves */
	struct candidate *candidates;	    /* of the portion in hand, one an operator at most */
	size_t candidate_count;
	sqlite3_stmt *nodes;
	struct evaluated evaluated[EVALUATED]; /* of the last nodes, by `id` */
	bool looked_back;		       /* `evaluated` has those before the portion, too */
	int64_t from;			       /* first row of the portion */
};

/* most: operators of a portion. 0 or a negative errno. */
int host_events_init(struct host_events *h, struct reader *reader, size_t most);
void host_events_deinit(struct host_events *h);
/* A portion of rows that follow one another begins. */
void host_events_begin(struct host_events *h, int64_t from);

/* bare: of files whose ranges have no column for inputs. */
extern const char host_range_query[], host_bare_range_query[], host_mark_query[], host_operator_query[],
	host_memory_query[];
/* One row of the query; `index`: its "Ev Idx". 0 or a negative errno. */
int host_put_range(const struct chrome *c, struct host_events *h, struct buffer *b, sqlite3_value **row, int64_t index);
int host_put_mark(const struct chrome *c, struct host_events *h, struct buffer *b, sqlite3_value **row, int64_t index);
/* A block of torch's allocators; one of unknown size is left out, as torch does. */
int host_put_memory(const struct chrome *c, struct host_events *h, struct buffer *b, sqlite3_value **row,
		    int64_t index);
int host_put_operator(const struct chrome *c, struct host_events *h, struct buffer *b, sqlite3_value **row,
		      int64_t index);

#endif
