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
	CONTROL_ARMED,	/* counting: skip_first and wait */
	CONTROL_WARMUP, /* collectors are being switched on, or are on and what they see is thrown away */
	CONTROL_RECORD,
	CONTROL_TICK,	 /* the step thread is at a boundary; the agent's thread keeps its hands off */
	CONTROL_DRAIN,	 /* the last boundary has passed */
	CONTROL_BETWEEN, /* between two cycles, waiting for the next segment */
};
OWN _Atomic uint32_t control_phase;

/* The capture that is armed or recorded. The head of control.c says which thread may touch what, and when. */
struct run {
	uint64_t capture, trigger, cycle;
	struct schedule schedule;
	uint64_t at_step; /* number of the next first step; 0 = by the schedule alone. The step thread's, as `base` */
	uint64_t first_at_step,
		at_multiple; /* as ARM has them: where at_step began, and how far it moves when missed */
	uint64_t duration, max_events;
	uint32_t wanted;  /* bit set of enum collector */
	uint32_t options; /* bit set of enum arm_option */
	uint32_t stacks_rate;
	uint32_t batches; /* enum batches; 0 = they are not the steps */
	char step_range[128], step_operator[128], step_optimizer[128];
	struct segment segment;
	struct segment next; /* of the next cycle; header NULL = has not come */
	uint64_t next_capture;
	uint32_t generation;
	/* Other collectors (ARM_SWITCH): the recording ends where this step would begin, and goes on as `next`. 0 = none are to come. */
	_Atomic uint64_t switch_at;
	struct message_arm coming; /* that ARM; while switch_at is set */
	bool goes_on;		   /* this recording is the rest of the one before, which ended with: */
	uint64_t last_step, before_capture;
	bool switch_untold; /* the daemon is still to hear of its first step */

	/* The step thread's, inside CONTROL_TICK. */
	uint64_t base;	     /* tick at which this cycle's schedule began */
	uint32_t late;	     /* steps that warm-up took longer than asked */
	uint32_t recorded;   /* steps */
	uint32_t active;     /* that it is to record; the agent's, while nothing ticks */
	uint64_t first_step; /* number */
	uint64_t step_start;
	struct garbage garbage;	 /* when it began */
	uint64_t before_upto;	 /* number of the last step before warm-up */
	uint64_t warmup_started; /* also the agent's, while nothing ticks */
	uint64_t others_at_start;
	_Atomic uint32_t thread; /* that stepped last; 0 = not known, or a window of time */
	/* Steps that found no room; the agent's thread writes them at the end. */
	struct event_step spare[32];
	uint32_t spares;

	/* The agent's thread's. */
	uint64_t populate_pause; /* ns until the next look for memory to map */
	uint64_t sweep_at;	 /* the next look for threads that are no more */
	bool collectors_on, on[CONTROL_COLLECTORS], armed[CONTROL_COLLECTORS];
	bool still; /* one that is armed wants the step thread to stand while it is switched on */
	uint32_t collector_bits;
	uint64_t enable, record_deadline;
	uint64_t lead;	      /* how long before a step with a number collectors are switched on, at the latest */
	uint64_t alone_until; /* what waits to record without a daemon gives up then; 0 = there is one */
	uint64_t cpu_at_start;
	uint64_t step_before; /* of the recording under way, or of the one that it is the rest of */
	bool cancelled_all;   /* no further cycle */
	/* A wish to end it that met a CONTROL_TICK; its reason, 0 = none, and when it is tried again. */
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

/* The step thread is at a boundary of the given source: `number` steps of that source have ended; 0: what has ended was a batch of
 * another phase. Called only while control_phase is not CONTROL_IDLE. */
void tick_boundary(uint32_t source, uint64_t now, uint64_t number);

/* The daemon has put enough memory behind the segment for a recording to begin, or has had time enough to do so. */
bool tick_has_room(uint64_t now);

/* Before the recording that begins with the step at_step: does the warm-up begin with the step `next`, or has it begun, where a step takes
 * `step` ns (0: not known)? */
bool tick_warms_up(uint64_t next, uint64_t step);

/* Moves at_step, which has at_multiple, on to a step that is not before `least`. Returns by how many steps. In CONTROL_TICK, or
 * while nothing ticks. */
uint32_t tick_next_at_step(uint64_t least);

/* The recording begins at `now`, a boundary after which the step `next_number` runs. In CONTROL_TICK. */
void tick_begin(uint64_t now, uint64_t next_number);
/* A recorded step (or the window of a --duration capture) has ended. In CONTROL_TICK. */
void tick_write_step(uint64_t now, uint64_t number);
/* The agent's thread, which has waited for the end of a CONTROL_TICK: 1 where its thread is no more and the recording has been
 * ended in its place. */
bool tick_bury(void);

/* Nothing that starts from now on is recorded. In CONTROL_TICK, or by whoever has moved the phase to CONTROL_DRAIN. */
void tick_end(uint64_t now, uint32_t reason);

#endif
