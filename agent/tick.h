/* tick.h - the half of the control that runs on the step thread, and what it shares with the agent's half (control.c, cycle.c, next.c, due.c). */
#ifndef PROFD_AGENT_TICK_H
#define PROFD_AGENT_TICK_H

#include "core/own.h"
#include "stacks/garbage.h"
#include "../proto/events.h"
#include "../proto/message.h"
#include "../proto/schedule.h"
#include "../proto/segment.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SECOND 1000000000ull
/* More collectors than there will ever be. */
#define CONTROL_COLLECTORS 8

enum control_phase {
	CONTROL_IDLE = 0,
	CONTROL_ARMED,	/* counts the steps of skip_first and wait */
	CONTROL_WARMUP, /* collectors are being switched on, or are on and their events are thrown away */
	CONTROL_RECORD,
	CONTROL_TICK,	 /* the step thread is at a boundary; the agent's thread changes nothing */
	CONTROL_DRAIN,	 /* the last boundary has passed */
	CONTROL_BETWEEN, /* between two cycles, waiting for the next segment */
};
OWN _Atomic uint32_t control_phase;

/* The capture that is armed or recorded. The head of control.c says which thread may touch what, and when. */
struct run {
	uint64_t capture, trigger, cycle;
	struct schedule schedule;
	uint64_t at_step; /* number of the step at which the next recording begins; 0 = by the schedule alone. The
			   * step thread's, as `base` */
	uint64_t first_at_step,
		at_multiple; /* as ARM has them: the first at_step, and by how much at_step moves when it is missed */
	uint64_t duration, max_events;
	uint32_t wanted;  /* bit set of enum collector */
	uint32_t options; /* bit set of enum arm_option */
	uint32_t stacks_rate;
	uint32_t batches; /* enum batches; 0 = batches are not the steps */
	char step_range[128], step_operator[128], step_optimizer[128];
	struct segment segment;
	struct segment next; /* the next cycle's; header NULL = it has not come */
	uint64_t next_capture;
	uint32_t generation;
	/* ARM_SWITCH: the recording ends before this step, and goes on with other collectors as `next`. 0 = there was
	 * no ARM_SWITCH. */
	_Atomic uint64_t switch_at;
	struct message_arm coming; /* that ARM_SWITCH; while switch_at is set */
	bool goes_on;		   /* this recording goes on from the one before, whose last step and capture are: */
	uint64_t last_step, before_capture;
	bool switch_untold; /* the daemon has not been told its first step yet */

	/* The step thread's, inside CONTROL_TICK. */
	uint64_t base;	     /* tick at which this cycle's schedule began */
	uint32_t late;	     /* by how many steps warm-up took longer than asked */
	uint32_t recorded;   /* steps */
	uint32_t active;     /* steps to record; the agent's, while nothing ticks */
	uint64_t first_step; /* number */
	uint64_t step_start;
	struct garbage garbage;	 /* at step_start */
	uint64_t before_upto;	 /* number of the last step before warm-up */
	uint64_t warmup_started; /* also the agent's, while nothing ticks */
	uint64_t others_at_start;
	_Atomic uint32_t thread; /* the thread that stepped last; 0 = not known, or a window of time */
	/* Records of steps for which the segment had no room; the agent's thread writes them at the end. */
	struct event_step spare[32];
	uint32_t spares;

	/* The agent's thread's. */
	uint64_t populate_pause; /* ns until the next look for memory to map */
	uint64_t sweep_at;	 /* when to look next for threads that have ended */
	bool collectors_on, on[CONTROL_COLLECTORS], armed[CONTROL_COLLECTORS];
	bool still; /* an armed collector wants the step thread to stand while it is switched on */
	uint32_t collector_bits;
	uint64_t enable, record_deadline;
	uint64_t lead;	      /* collectors are switched on at least so long before the step at_step */
	uint64_t alone_until; /* an armed capture that has lost its daemon gives up then; 0 = there is a daemon */
	uint64_t cpu_at_start;
	uint64_t step_before; /* before the recording under way, or before the one that it goes on from */
	bool cancelled_all;   /* no further cycle */
	/* An end that had to be put off because of CONTROL_TICK: its reason, 0 = none, and when it is tried again. */
	uint32_t end_wish;
	uint64_t end_at;
};
OWN struct run control_run;

OWN _Atomic uint32_t control_source;	 /* enum step_source that ticks */
OWN _Atomic uint64_t control_ticks;	 /* boundaries since arming; the step thread adds */
OWN _Atomic uint32_t control_ready;	 /* collectors are on: the next boundary may begin the recording */
OWN _Atomic uint32_t control_end_reason; /* enum cancel_reason of the recording that ended */
OWN _Atomic uint32_t control_want_start; /* warm-up has begun: switch collectors on */
OWN _Atomic uint64_t control_end_time;	 /* CLOCK_MONOTONIC ns of the end of the recording */

/* The step thread is at a boundary of the given source: `number` steps of that source have ended. 0: a batch of another
 * phase has ended. Called only while control_phase is not CONTROL_IDLE. */
void tick_boundary(uint32_t source, uint64_t now, uint64_t number);

/* Has the daemon put enough memory behind the segment for a recording to begin, or had enough time to do so? */
bool tick_has_room(uint64_t now);

/* A recording is to begin with the step at_step. Must its warm-up begin with the step `next` or before, if a step takes
 * `step` ns (0: not known)? */
bool tick_warms_up(uint64_t next, uint64_t step);

/* Moves at_step on by multiples of at_multiple, to a step that is not before `least`. Returns by how many steps. In
 * CONTROL_TICK, or while nothing ticks. */
uint32_t tick_next_at_step(uint64_t least);

/* The recording begins at `now`, a boundary after which the step `next_number` runs. In CONTROL_TICK. */
void tick_begin(uint64_t now, uint64_t next_number);
/* A recorded step (or the window of a --duration capture) has ended. In CONTROL_TICK. */
void tick_write_step(uint64_t now, uint64_t number);
/* The agent's thread has waited too long for the end of a CONTROL_TICK. If the thread in it has ended, this ends the
 * recording in its place and returns true. */
bool tick_bury(void);

/* Nothing that starts from now on is recorded. In CONTROL_TICK, or by whoever has moved the phase to CONTROL_DRAIN. */
void tick_end(uint64_t now, uint32_t reason);

#endif
