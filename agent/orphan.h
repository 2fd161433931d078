/* orphan.h - segments after their recording: until the daemon says that it has all, and for a while where it is gone, so
 * that the next daemon can have them. The agent's thread only. */
#ifndef PROFD_AGENT_ORPHAN_H
#define PROFD_AGENT_ORPHAN_H

#include "../proto/message.h"
#include "../proto/segment.h"

#include <stdbool.h>
#include <stdint.h>

/* A recording has ended: sends DONE and keeps the segment (taken) until orphan_finish. `told`: COLLECTOR_COUNT messages, those
 * that were not sent have size 0. `stuck`: a thread may still write into it, so it is never unmapped. */
void orphan_done(const struct segment *segment, uint64_t trigger, const struct message_collector *told,
		 const struct message_done *done, bool stuck);
void orphan_finish(uint64_t capture);

/* The daemon is gone / a new one has answered: every kept segment is offered. */
void orphan_lost(void);
void orphan_found(void);
/* Offers the one that is being recorded; `told` as above. */
void orphan_offer(const struct segment *segment, uint64_t capture, uint64_t trigger,
		  const struct message_collector *told);

/* Gives up what has waited too long; returns when that is next due (CLOCK_MONOTONIC ns), UINT64_MAX for never. */
uint64_t orphan_work(uint64_t now);

uint32_t orphan_count(void);
/* 1 while a daemon is there. */
bool orphan_connected(void);
/* Are there any at all? */
bool orphan_any(void);
/* Gives up all of them. */
void orphan_forget_all(void);

#endif
