/* messages.c - see messages.h. Thread: the loop's. No locks. */
#include "messages.h"
#include "registry.h"
#include "process_stat.h"
#include "live.h"
#include "after.h"
#include "arming.h"
#include "capture.h"
#include "cycles.h"
#include "ending.h"
#include "orphans.h"
#include "switching.h"
#include "trigger.h"
#include "proto/base/clock.h"
#include "daemon/core/connection.h"
#include "daemon/core/server.h"
#include "proto/collectors.h"

#include <stdio.h>
#include <string.h>

static void on_declined(struct capture *capture, const struct message_declined *message)
{
	enum error error = error_word(message->error) ? (enum error)message->error : ERROR_FAILED;
	if (capture->state == STATE_ASKED) {
		capture_refused(capture, error, message->sentence);
		return;
	}
	if (capture->state != STATE_RUNNING)
		return;
	if (capture->switching || (capture->facts.cycle && error == ERROR_CANCELLED)) {
		switching_failed(capture, error, message->sentence);
		capture_drop(capture);
		return;
	}
	ending_incomplete(capture, REASON_AGENT,
			  *message->sentence ? message->sentence : cancel_reason_sentence(REASON_AGENT));
	capture_end(capture);
	cycles_drop(capture);
}

static void hear(struct capture *capture, const struct message_collector *message, unsigned bit, uint64_t enable)
{
	struct store_collector *collector = &capture->collectors[bit];
	collector->wanted = true;
	collector->told = true;
	collector->ran = message->available == 1;
	collector->enable = enable;
	text_copy(collector->sentence, sizeof collector->sentence, message->sentence);
}

void capture_told(struct capture *capture, const struct message_collector *message)
{
	if (message->collector >= COLLECTOR_COUNT)
		return;
	capture->handoff.collectors[message->collector] = *message;
	hear(capture, message, message->collector, message->enable);
	/* The message holds for the collector's parts, too. Agents of earlier builds send one for each part, with the
	 * same effect. */
	uint32_t parts = collector_parts(message->collector);
	for (unsigned bit = 0; bit < COLLECTOR_COUNT; bit++)
		if (parts >> bit & 1 && capture->collectors[bit].wanted)
			hear(capture, message, bit, 0);
}

static void send_finish(struct process *process, uint64_t number, uint32_t wanted)
{
	/* This daemon no longer knows the captures that it has handed off. The agent keeps them for the next daemon. */
	if (process->server->handing_off && !wanted)
		return;
	struct message_finish finish = MESSAGE_INIT(FINISH, finish);
	finish.capture = number;
	finish.wanted = wanted;
	conn_send(process->conn, &finish, sizeof finish, -1);
}

static void on_done(struct capture *capture, const struct message_done *message)
{
	char limit[TIME_LIMIT_TEXT_BYTES];
	if (!capture_is_running(capture))
		return;
	/* Its trigger waits for an answer. */
	if (capture->state == STATE_ASKED) {
		send_finish(capture->process, capture->facts.number, 0);
		capture_refused(capture, ERROR_FAILED, "its agent ended the capture without a word of its beginning");
		return;
	}
	/* The agent tells the next daemon again, which begins what follows. */
	if (capture->server->handing_off && capture->state == STATE_RUNNING) {
		capture_hand_off(capture);
		return;
	}
	capture->done = *message;
	capture->has_done = true;
	capture->done_at = clock_monotonic();
	if (message->reason == REASON_NONE) {
		capture->facts.status = CAPTURE_COMPLETE;
		switching_over(capture, message->steps);
		cycles_follow_up(capture);
	} else if (capture->facts.cycle && message->steps == 0 && !capture->catalogued) {
		/* Cancelled between two cycles: the next one had not begun, and no client has been told of it. */
		capture_drop(capture);
		return;
	} else if (message->reason == REASON_CANCELLED || message->reason == REASON_LIMIT ||
		   message->reason == REASON_MISSED || message->reason == REASON_AGENT ||
		   message->reason == REASON_DETACHED || message->reason == REASON_PHASE) {
		ending_incomplete(capture, (enum cancel_reason)message->reason,
				  cancel_reason_sentence(message->reason));
	} else if (message->reason == REASON_DEADLINE) {
		ending_after(capture, REASON_DEADLINE, ending_time_limit(capture, limit));
	} else {
		const char *why = message->reason == REASON_DAEMON && *capture->cancel_text
					  ? capture->cancel_text
					  : cancel_reason_sentence(message->reason);
		ending_after(capture, why ? (enum cancel_reason)message->reason : REASON_AGENT,
			     why ? why : "the agent ended it");
	}
	bool over = message->reason != REASON_NONE;
	capture->process->afters++;
	capture_end(capture);
	if (over)
		cycles_drop(capture);
}

static struct capture *of_agent(struct process *process, uint64_t number)
{
	struct capture *capture = process->captures;
	while (capture && capture->facts.number != number)
		capture = capture->next_of_process;
	return capture;
}

/* The agent offers a capture that this daemon does not know. No client waits for it, so the agent is told to drop it,
 * or to end it if it still records. */
static void refuse_offer(struct process *process, const struct message_offer *offer)
{
	send_finish(process, offer->capture, 0);
	if (!offer->active)
		return;
	process->letting_go = offer->capture;
	struct message_cancel cancel = MESSAGE_INIT(CANCEL, cancel);
	cancel.capture = offer->capture;
	cancel.reason = REASON_DAEMON;
	conn_send(process->conn, &cancel, sizeof cancel, -1);
}

void capture_message(struct process *process, const union message_any *message, int fd)
{
	struct capture *capture = NULL;
	switch (message->head.type) {
	case MESSAGE_ARMED:
		capture = of_agent(process, message->armed.capture);
		if (capture)
			capture_armed(capture, &message->armed);
		break;
	case MESSAGE_DECLINED:
		capture = of_agent(process, message->declined.capture);
		if (capture)
			on_declined(capture, &message->declined);
		break;
	case MESSAGE_COLLECTOR:
		capture = of_agent(process, message->collector.capture);
		if (capture)
			capture_told(capture, &message->collector);
		break;
	case MESSAGE_DONE:
		capture = of_agent(process, message->done.capture);
		if (capture)
			on_done(capture, &message->done);
		else if (!capture_find(process->server, message->done.capture)) /* an orphan is still to be offered */
			send_finish(process, message->done.capture, 0);
		if (process->letting_go == message->done.capture) {
			process->letting_go = 0;
			arming_of_process(process);
		}
		break;
	case MESSAGE_SWITCHED:
		capture = of_agent(process, message->switched.capture);
		if (capture)
			switching_done(capture, &message->switched);
		break;
	case MESSAGE_AFTER:
		capture_after(process, &message->after);
		break;
	case MESSAGE_OFFER:
		/* This daemon is about to end, and further cycles could not follow here: the next daemon takes it. */
		if (process->server->handing_off)
			break;
		process->offers_due -= process->offers_due > 0;
		if (orphan_offered(process, &message->offer, fd))
			refuse_offer(process, &message->offer);
		orphans_offered(process);
		arming_of_process(process);
		break;
	default:
		break;
	}
	server_tick_adjust(process->server);
}

void capture_process_gone(struct process *process)
{
	bool alive = !process_has_ended(process->who.pid, process->who.start_time);
	for (struct capture *capture = process->captures, *next; capture; capture = next) {
		next = capture->next_of_process;
		if (capture->state == STATE_ASKED) {
			if (capture->trigger) {
				char pid[16];
				char sentence[SENTENCE_BYTES];
				snprintf(pid, sizeof pid, "%d", process->who.pid);
				error_text(ERROR_GONE, pid, sentence);
				capture_refused(capture, ERROR_GONE, sentence);
			} else {
				capture_drop(capture);
			}
		} else if (capture->state == STATE_RUNNING) {
			if (capture->facts.cycle && !capture_has_begun(capture) && !capture->catalogued) {
				capture_drop(capture);
			} else {
				ending_after(capture, alive ? REASON_AGENT : REASON_DIED,
					     alive ? "the agent's connection ended while the process lives (has it "
						     "started another program?),"
						   : "the process ended");
				capture_end(capture);
			}
		}
		capture_set_process(capture, NULL);
	}
}
