/* handoff.h - what a capture's partial file holds besides its rows, so that another daemon can go on with the capture
 * as if it had begun it: the schedule, the time that is left, and what the agent has told. An ingest thread writes, the
 * loop's reads. */
#ifndef PROFD_DAEMON_CAPTURE_HANDOFF_H
#define PROFD_DAEMON_CAPTURE_HANDOFF_H

#include "proto/events.h"
#include "proto/message.h"

#include <stdbool.h>

struct store;

struct handoff {
	struct message_arm arm;				      /* head.size 0: not known */
	uint64_t deadline, time_limit;			      /* CLOCK_MONOTONIC ns, ns; 0 = none */
	uint64_t max_bytes, timeout;			      /* of the trigger's request */
	struct message_collector collectors[COLLECTOR_COUNT]; /* head.size 0: the agent has told nothing of it */
};

/* In a transaction. What was known when the capture began; what the agent has told since. */
void handoff_write_begin(struct store *store, const struct handoff *handoff);
void handoff_write_told(struct store *store, const struct handoff *handoff);
/* Reads all of it. A part that is missing, or that no daemon writes, is left as not known. */
void handoff_read(struct store *store, struct handoff *ret);

#endif
