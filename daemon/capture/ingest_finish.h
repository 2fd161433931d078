/* ingest_finish.h - finishes the file of a capture whose events are all in it: counts of lost records, derive, summary,
 * rename. */
#ifndef PROFD_DAEMON_CAPTURE_INGEST_FINISH_H
#define PROFD_DAEMON_CAPTURE_INGEST_FINISH_H

#include "daemon/core/work.h"

#include <stdint.h>

/* work.run of the finish pool, of a struct ingest. */
int64_t ingest_finish(struct work *work);

#endif
