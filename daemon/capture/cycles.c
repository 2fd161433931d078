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
#include "base/log.h"

void cycles_drop(const struct capture *ended)
{
	for (struct capture *capture = live_of(ended->server)->captures, *next; capture; capture = next) {
		next = capture->next;
		if (capture != ended && capture_is_running(capture) && capture->process == ended->process &&
		    capture->facts.trigger == ended->facts.trigger && capture->facts.cycle > ended->facts.cycle)
			capture_drop(capture);
	}
}

/* An agent that comes back offers first what it is at. So later cycles than that, which an earlier daemon has prepared, have never
 * begun: the agent has forgotten their segments, as this daemon does now. Returns whether the next cycle is under way all the
 * same. */
static bool has_next_cycle(const struct capture *capture)
{
	bool found = false;
	for (struct capture *other = live_of(capture->server)->captures, *next; other; other = next) {
		next = other->next;
		if (other->facts.trigger != capture->facts.trigger || other->facts.who.pid != capture->facts.who.pid)
			continue;
		if (other->state == STATE_ORPHAN && other->facts.cycle > capture->facts.cycle)
			orphan_forget(other);
		else if (!other->forgotten && other->state != STATE_DROPPED)
			found |= other->facts.cycle == capture->facts.cycle + 1;
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
	capture->followed_up = has_next_cycle(capture);
	if (capture->followed_up)
		return;
	struct message_arm next = *arm;
	next.cycle = capture->facts.cycle + 1;
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
