/* schedule.h - which steps are recorded: torch.profiler's schedule() as a pure function with the same words, so that
 * its users know this one, too. */
#ifndef PROFD_PROTO_SCHEDULE_H
#define PROFD_PROTO_SCHEDULE_H

#include <stdint.h>

enum schedule_state {
	SCHEDULE_NONE = 0,
	SCHEDULE_WARMUP = 1,
	SCHEDULE_RECORD = 2,
	SCHEDULE_RECORD_AND_SAVE = 3, /* the last recorded step of a cycle */
};

struct schedule {
	uint32_t skip_first; /* steps before the first cycle */
	uint32_t wait;	     /* steps at the start of each cycle in which nothing happens */
	uint32_t warmup;     /* steps in which collectors are on and their events are thrown away */
	uint32_t active;     /* recorded steps of a cycle, at least 1 */
	uint32_t repeat;     /* cycles; 0 = until cancelled */
};

/* NULL where the schedule can be run, else a sentence that says what to change. */
const char *schedule_check(const struct schedule *schedule);

/* The state of the step at `position` (0 = the first whole step after arming). *ret_cycle, where not NULL, gets the cycle
 * that the position belongs to (0 before the first). */
enum schedule_state schedule_state(const struct schedule *schedule, uint64_t position, uint64_t *ret_cycle);

/* Steps of a cycle: from its first recorded step to the first recorded step of the next cycle. */
uint64_t schedule_period(const struct schedule *schedule);

/* First position of a cycle's warm-up (or of its recording where warmup is 0), and of its recording. */
uint64_t schedule_warmup_at(const struct schedule *schedule, uint64_t cycle);
uint64_t schedule_record_at(const struct schedule *schedule, uint64_t cycle);

const char *schedule_state_name(enum schedule_state state);

#endif
