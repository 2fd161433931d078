/* clock.h - the clocks whose times are written into rows and log lines, and a time as text. Any thread, no locks. */
#ifndef PROFD_PROTO_BASE_CLOCK_H
#define PROFD_PROTO_BASE_CLOCK_H

#include <stdint.h>

uint64_t clock_monotonic(void); /* ns */
uint64_t clock_thread(void);	/* ns of processor time of the calling thread */
uint64_t clock_realtime(void);	/* ns */

/* RFC 3339, UTC, microseconds: 27 characters and a NUL. */
#define TIME_TEXT_BYTES 40
void time_text(uint64_t realtime_ns, char ret[TIME_TEXT_BYTES]);

#endif
