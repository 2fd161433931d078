/* next.c - see next.h. */
#include "next.h"
#include "collectors.h"
#include "cycle.h"
#include "decline.h"
#include "core/keeper.h"
#include "link.h"
#include "tick.h"

#include "../proto/errors.h"

#include <string.h>

void next_drop(void)
{
	if (control_run.next.header)
		keeper_unmap(&control_run.next);
	control_run.next.header = NULL;
	atomic_store_explicit(&control_run.switch_at, 0, memory_order_relaxed);
}

/* Where ranges or operators are the steps, only their collectors see the steps, so these are added. */
void next_take_wishes(const struct message_arm *arm)
{
	control_run.wanted = arm->collectors;
	control_run.options = arm->options;
	control_run.stacks_rate = arm->stacks_rate;
	if (control_source == STEP_SOURCE_RANGE)
		control_run.wanted |= 1u << COLLECTOR_NVTX;
	if (control_source == STEP_SOURCE_OPERATOR)
		control_run.wanted |= 1u << COLLECTOR_TORCH;
}

/* `left`: cycles after the one that begins. */
static void count_cycles(uint64_t cycle, uint64_t left)
{
	control_run.cycle = cycle;
	if (control_run.schedule.repeat)
		control_run.schedule.repeat = (uint32_t)(cycle + 1 + left);
}

static void send_switched(uint64_t capture, uint64_t before, uint64_t last_step, uint64_t first_step)
{
	struct message_switched m = MESSAGE_INIT(SWITCHED, switched);
	m.capture = capture;
	m.before = before;
	m.last_step = last_step;
	m.first_step = first_step;
	link_send(&m, -1);
}

/* The step thread writes first_step before it leaves the boundary. */
void next_tell(uint32_t phase)
{
	if (!control_run.switch_untold || (phase != CONTROL_RECORD && phase != CONTROL_DRAIN) ||
	    !control_run.first_step)
		return;
	control_run.switch_untold = false;
	send_switched(control_run.capture, control_run.before_capture, control_run.last_step, control_run.first_step);
}

void next_number(bool switches)
{
	uint64_t left = (uint64_t)control_run.schedule.repeat - control_run.cycle - (control_run.goes_on ? 1 : 2);
	if (!switches) {
		control_run.cycle++;
		return;
	}
	count_cycles(control_run.coming.cycle, left);
	next_take_wishes(&control_run.coming);
	control_run.before_capture = control_run.capture;
	control_run.switch_untold = control_run.goes_on;
	if (!control_run.goes_on)
		send_switched(control_run.next_capture, 0, 0, 0);
}

/* A recording ends at a boundary and goes on as the new capture. Where collectors are not on yet they are armed anew in
 * the same capture: the step thread does not use them before they are on. */
void next_switch(const struct message_arm *arm, struct segment *segment)
{
	uint32_t error;
	const char *why = decline_switch(arm, &error);
	if (why) {
		keeper_unmap(segment);
		decline_send(arm->capture, error, why);
		return;
	}
	if (control_run.next.header)
		decline_send(control_run.next_capture, ERROR_CANCELLED, decline_over);
	next_drop();
	if (atomic_load(&control_phase) == CONTROL_BETWEEN) {
		control_run.goes_on = false;
		count_cycles(arm->cycle, (uint64_t)control_run.schedule.repeat - control_run.cycle - 1);
		next_take_wishes(arm);
		send_switched(arm->capture, 0, 0, 0);
		cycle_begin(arm->capture, segment);
		return;
	}
	if (!control_run.collectors_on) {
		keeper_unmap(segment);
		collectors_disarm();
		collectors_forget();
		next_take_wishes(arm);
		send_switched(arm->capture, control_run.capture, 0, 0);
		collectors_arm();
		return;
	}
	control_run.next = *segment;
	control_run.next_capture = arm->capture;
	control_run.coming = *arm;
	uint64_t at = arm->switch_at > arm->switch_pass ? arm->switch_at - arm->switch_pass : 1;
	atomic_store_explicit(&control_run.switch_at, at, memory_order_release);
}
