/* orphan.h - keeps segments after their recording until the daemon says that it has everything. If the daemon is gone,
 * it keeps them for a while for the next daemon. The agent's thread only. */
#ifndef PROFD_AGENT_ORPHAN_H
#define PROFD_AGENT_ORPHAN_H

#include "../proto/message.h"
#include "../proto/segment.h"

#include <stdbool.h>
#include <stdint.h>

/* A recording has ended: sends DONE and keeps the segment (taken) until orphan_finish. `told`: COLLECTOR_COUNT
 * messages; those that were not sent have size 0. `stuck`: a thread may still write into it, so it is never
 * unmapped. */
void orphan_done(const struct segment *segment, uint64_t trigger, const struct message_collector *told,
		 const struct message_done *done, bool stuck);
void orphan_finish(uint64_t capture);

/* The daemon is gone. / A new daemon has answered: it is offered every kept segment. */
void orphan_lost(void);
void orphan_found(void);
/* Offers the segment that is being recorded; `told` as above. */
void orphan_offer(const struct segment *segment, uint64_t capture, uint64_t trigger,
		  const struct message_collector *told);

/* Gives up segments that have waited too long. Returns when the next one will have (CLOCK_MONOTONIC ns), UINT64_MAX for
 * never. */
uint64_t orphan_work(uint64_t now);

uint32_t orphan_count(void);
/* Is a daemon there? */
bool orphan_connected(void);
/* Is any segment kept? */
bool orphan_any(void);
/* Gives up all of them. */
void orphan_forget_all(void);

#endif
