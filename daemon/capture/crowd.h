/* crowd.h - captures whose segments are being emptied at the same time share the processors and the memory that is provided ahead of need. */
#ifndef PROFD_DAEMON_CAPTURE_CROWD_H
#define PROFD_DAEMON_CAPTURE_CROWD_H

#include "ingest.h"

/* Counts the ingest among them, and no longer: once each at the most. */
void crowd_join(struct ingest *ingest);
void crowd_leave(struct ingest *ingest);

/* Are they so many that each is looked at less often? */
bool crowd_is_large(void);

/* ns until an ingest looks again. If it had the processors for itself, it would look after `alone` ns. */
int64_t crowd_pause(int64_t alone);

/* Gives the ingest's segment memory ahead of what its agent needs, by its phase and how many share it. Where there is none the agent goes
 * on within what it has, and counts what does not fit; this is logged once. The ingest's own thread. */
void crowd_provide(struct ingest *ingest);

#endif
