/* cycles.c - a schedule's further cycles: the segment of the next one is there before the agent needs it. Thread: the loop's. No
 * locks. */
#include "cycles.h"
#include "capture.h"
#include "ending.h"
#include "arming.h"
#include "orphans.h"
#include "daemon/core/connection.h"
#include "daemon/core/server.h"
#include "live.h"
#include "proto/base/log.h"

void cycles_drop(const struct capture *ended)
{
	struct capture *first = ended->process ? ended->process->captures : NULL;
	for (struct capture *capture = first, *next; capture; capture = next) {
		next = capture->next_of_process;
		if (capture != ended && capture_is_running(capture) && capture->facts.trigger == ended->facts.trigger &&
		    capture->facts.cycle > ended->facts.cycle)
			capture_drop(capture);
	}
}

/* An agent that comes back offers all its segments before it tells the end of a capture. So if it has not offered a
 * later cycle, and the file of that cycle is empty, the cycle never began: the agent has forgotten its segment, as this
 * daemon does now. Returns whether a later cycle is under way nevertheless; else *ret_next is the one to begin. The
 * cycle that follows may be finished already: cycles are finished in any order. */
static bool has_later_cycle(const struct capture *capture, uint64_t *ret_next)
{
	bool found = false;
	*ret_next = capture->facts.cycle + 1;
	for (struct capture *other = live_of(capture->server)->captures, *next; other; other = next) {
		next = other->next;
		uint64_t cycle = other->facts.cycle;
		if (other->facts.trigger != capture->facts.trigger || other->facts.who.pid != capture->facts.who.pid ||
		    cycle <= capture->facts.cycle || other->forgotten || other->state == STATE_DROPPED)
			continue;
		if (other->state != STATE_ORPHAN) {
			found = true;
			continue;
		}
		uint64_t least = other->begun ? cycle + 1 : cycle;
		*ret_next = *ret_next < least ? least : *ret_next;
		if (!other->begun)
			orphan_forget(other);
	}
	return found;
}

void cycles_follow_up(struct capture *capture)
{
	const struct message_arm *arm = &capture->arm;
	bool last_chance = capture->has_done;
	if (capture->followed_up || !capture->process || !capture->trigger || capture->cancel || arm->duration ||
	    (arm->at_step && !arm->at_multiple) || capture->server->stopping ||
	    (arm->repeat && capture->facts.cycle + 1 >= arm->repeat) || (capture->follow_failed && !last_chance))
		return;
	/* The next cycle may be among what its agent is still to offer. */
	if (capture->process->offers_due && !last_chance)
		return;
	struct message_arm next = *arm;
	next.options &= ~(uint32_t)ARM_SWITCH;
	capture->followed_up = has_later_cycle(capture, &next.cycle) || (arm->repeat && next.cycle >= arm->repeat);
	if (capture->followed_up)
		return;
	enum error error;
	char sentence[SENTENCE_BYTES];
	struct capture *following = capture_new(capture->process, capture->trigger, &next, &error, sentence);
	if (following) {
		following->follows = capture->facts.number;
		capture->followed_by = following->facts.number;
	}
	capture->followed_up = following != NULL;
	capture->follow_failed = !following;
	if (capture->followed_up || !last_chance)
		return;
	log_line("pid %d: cycle %llu cannot be recorded: %s", capture->facts.who.pid, (unsigned long long)next.cycle,
		 sentence);
	trigger_cut_short(capture->trigger, capture->process, error, sentence);
	/* The agent waits for it. */
	struct message_cancel cancel = MESSAGE_INIT(CANCEL, cancel);
	cancel.capture = capture->facts.number;
	cancel.reason = REASON_DAEMON;
	conn_send(capture->process->conn, &cancel, sizeof cancel, -1);
}
