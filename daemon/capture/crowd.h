/* crowd.h - captures whose segments are being emptied at the same time share the processors and the memory that is provided ahead of need. */
#ifndef PROFD_DAEMON_CAPTURE_CROWD_H
#define PROFD_DAEMON_CAPTURE_CROWD_H

#include "ingest.h"

/* Counts the ingest among these captures; stops counting it. At most once each. */
void crowd_join(struct ingest *ingest);
void crowd_leave(struct ingest *ingest);

/* Are there so many that each is looked at less often? */
bool crowd_is_large(void);

/* ns until an ingest looks again. If it had the processors for itself, it would look after `alone` ns. */
int64_t crowd_pause(int64_t alone);

/* Gives the ingest's segment memory ahead of its agent's need; how much depends on its phase and on how many captures
 * share the memory. If there is none, the agent goes on with what it has, and counts the records that do not fit; this
 * is logged once. The ingest's own thread. */
void crowd_provide(struct ingest *ingest);

#endif
