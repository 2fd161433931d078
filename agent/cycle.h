/* cycle.h - one recording: its begin, its end, and the moves between phases. The agent's thread only. */
#ifndef PROFD_AGENT_CYCLE_H
#define PROFD_AGENT_CYCLE_H

#include "../proto/segment.h"
#include "tick.h"

#include <stdbool.h>
#include <stdint.h>

/* If a boundary takes too long, the agent's thread waits for it again after this time. */
#define CYCLE_TICK_PAUSE_NS (SECOND / 5)

/* Moves from one of the phases in `from` (bit set) to `to`. Returns the phase it came from, or CONTROL_TICK if the phase is another, or a
 * boundary takes too long. */
uint32_t cycle_move(uint32_t from, uint32_t to);

/* Arms a cycle. The phase is CONTROL_IDLE, CONTROL_BETWEEN or CONTROL_DRAIN, so the step thread only counts. */
void cycle_begin(uint64_t capture, const struct segment *segment);
/* Gives the capture up where a thread has a seccomp filter of its own: the system calls of a thread's first event could
 * be forbidden there. Returns whether it did. */
bool cycle_stop_for_filter(void);
/* The cycle's warm-up has begun: switches the collectors on. */
void cycle_switch_on(void);
/* Ends the armed or recording capture; no cycle follows. cycle_drain() does the rest. */
void cycle_finish(uint32_t reason);
/* The phase is CONTROL_DRAIN. Does everything from the last boundary to DONE. Then the next cycle begins, if there is
 * one. */
void cycle_drain(void);

#endif
