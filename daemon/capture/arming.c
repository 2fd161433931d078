/* arming.c - see arming.h. Thread: the loop's. No locks. */
#include "arming.h"
#include "capture.h"
#include "ending.h"
#include "live.h"
#include "numbers.h"
#include "patience.h"
#include "trigger.h"
#include "proto/base/clock.h"
#include "daemon/catalogue/retention.h"
#include "daemon/core/connection.h"
#include "daemon/core/server.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static uint32_t chunk_bytes_for(uint64_t event_bytes)
{
	uint32_t bytes = LIMIT_CHUNK_BYTES;
	while (bytes > LIMIT_CHUNK_BYTES_MIN && event_bytes / bytes < 64)
		bytes /= 2;
	return bytes;
}

/* Its agent has said that it is armed, and there is a note of it, or the note takes too long (capture_tick). */
void capture_accepted(struct capture *capture)
{
	capture->unanswered = false;
	if (capture->trigger)
		trigger_answered(capture->trigger, capture, ERROR_NONE, "");
	/* Its first work takes some ms and must not delay the answers of others: capture_tick begins it. */
	if (capture->state != STATE_RUNNING || !capture->trigger || !capture->trigger->waiting)
		capture_submit(capture);
	if (capture->state == STATE_RUNNING)
		capture_catalogue(capture);
}

/* There is a note of a further cycle: now its agent may be told of it, and the cycle before it may be finished. */
static void begin_cycle(struct capture *capture)
{
	if (capture->state == STATE_RUNNING && capture->cancel)
		capture_drop(capture);
	else if (capture->state == STATE_RUNNING)
		conn_send(capture->process->conn, &capture->arm, sizeof capture->arm, capture->ingest->segment.fd);
	capture_submit(capture);
	struct capture *before = capture_find(capture->server, capture->follows);
	if (before && before->held) {
		before->held = false;
		ending_finish(before);
	}
}

static void noted(struct work *work)
{
	struct capture *capture = ((struct ingest *)work)->owner;
	if (capture->server->closing)
		return;
	capture->noting = false;
	if (capture->facts.cycle)
		begin_cycle(capture);
	else if (capture->unanswered && capture->state != STATE_ASKED && capture->state != STATE_DROPPED)
		capture_accepted(capture);
	else if (capture->state != STATE_ASKED)
		capture_submit(capture);
}

/* How long an agent that is back may take until it can be armed. */
#define SETTLE_NS 5000000000ull

static bool is_settled(const struct process *process)
{
	return (!process->offers_due && !process->letting_go) || process->server->stopping ||
	       clock_realtime() > process->registered_at + SETTLE_NS;
}

static void send_arm(struct capture *capture)
{
	capture->unsent = false;
	capture->asked_at = clock_monotonic();
	conn_send(capture->process->conn, &capture->arm, sizeof capture->arm, capture->ingest->segment.fd);
}

void arming_work(struct capture *capture)
{
	if (!capture->unsent || capture->state != STATE_ASKED)
		return;
	if (capture->cancel == REASON_CANCELLED)
		capture_refused(capture, ERROR_CANCELLED, "cancelled");
	else if (capture->cancel)
		capture_refused(capture, ERROR_FAILED, "its agent did not end an earlier capture in time");
	else if (is_settled(capture->process))
		send_arm(capture);
}

void arming_of_process(struct process *process)
{
	for (struct capture *capture = process->captures, *next; capture; capture = next) {
		next = capture->next_of_process;
		arming_work(capture);
	}
}

struct capture *capture_new(struct process *process, struct trigger *trigger, const struct message_arm *arm,
			    enum error *ret_error, char sentence[SENTENCE_BYTES])
{
	struct server *server = process->server;
	if (!retention_allows(server, process->who.uid, sentence, SENTENCE_BYTES)) {
		*ret_error = ERROR_NO_SPACE;
		return NULL;
	}
	struct capture_facts facts = {.number = numbers_take(server),
				      .trigger = arm->trigger,
				      .cycle = arm->cycle,
				      .who = process->who,
				      .status = CAPTURE_ARMED,
				      .started = clock_realtime(),
				      .steps_wanted = arm->duration ? 1 : arm->active};
	text_copy(facts.label, sizeof facts.label, trigger->request.label);
	uint64_t bytes = trigger->request.max_bytes ? trigger->request.max_bytes : LIMIT_SEGMENT_BYTES_DEFAULT;
	struct segment segment;
	struct capture *capture = NULL;
	/* The whole schedule was accepted with its first cycle: each process has at most two segments under way. */
	*ret_error = arm->cycle ? ERROR_NONE : quota_capture(server, trigger->user, bytes, sentence);
	if (*ret_error)
		return NULL;
	int error = segment_create(&segment, facts.number, bytes, chunk_bytes_for(bytes));
	if (!error) {
		struct ingest *ingest = ingest_new(&facts, &segment, false, server->folder, server->folder_path,
						   &trigger->user->working);
		capture = ingest ? capture_add(server, &facts) : NULL;
		if (!capture) {
			if (ingest)
				ingest_free(ingest);
			else
				segment_deinit(&segment);
			error = -ENOMEM;
		} else {
			capture->ingest = ingest;
			ingest->floor = &retention_of(server)->floor;
		}
	}
	if (error) {
		*ret_error = error == -ENOSPC || error == -ENOMEM ? ERROR_NO_SPACE : ERROR_FAILED;
		snprintf(sentence, SENTENCE_BYTES, "the daemon could not make room for the capture: %s",
			 strerror(-error));
		return NULL;
	}
	capture_charge(capture, trigger->user, bytes);
	capture_set_process(capture, process);
	capture->trigger = trigger;
	capture->arm = *arm;
	capture->arm.capture = facts.number;
	capture->asked_at = clock_monotonic();
	capture->deadline = trigger->deadline;
	capture->time_limit = trigger->request.timeout ? trigger->request.timeout : LIMIT_DURATION_NS;
	for (unsigned bit = 0; bit < COLLECTOR_COUNT; bit++)
		capture->collectors[bit].wanted = arm->collectors >> bit & 1;
	capture->handoff = (struct handoff){.arm = capture->arm,
					    .deadline = capture->deadline,
					    .time_limit = capture->time_limit,
					    .max_bytes = trigger->request.max_bytes,
					    .timeout = trigger->request.timeout};
	/* A later cycle is not answered: the schedule has been accepted. */
	capture->state = arm->cycle ? STATE_RUNNING : STATE_ASKED;
	trigger->running++;
	/* Whenever this daemon ends, the next one must know of the schedule. The agent is told of a first cycle at
	 * once, the client when there is a note. Nobody is told of a further cycle before there is a note. */
	capture->noting = true;
	capture->unanswered = arm->cycle == 0;
	capture_work(capture, &live_of(server)->note_pool, ingest_note, noted);
	capture->unsent = arm->cycle == 0;
	arming_work(capture);
	server_tick_adjust(server);
	return capture;
}

void capture_refused(struct capture *capture, enum error error, const char *sentence)
{
	if (capture->trigger)
		trigger_answered(capture->trigger, capture, error, sentence);
	capture_drop(capture);
}

void capture_armed(struct capture *capture, const struct message_armed *message)
{
	struct server *server = capture->server;
	uint64_t took = clock_monotonic() - capture->asked_at, usual = live_of(server)->arm_ns / 8 * 7;
	if (capture->state != STATE_ASKED || capture->unsent)
		return;
	/* A late answer does not show how long the next one will take. */
	if (took > PATIENCE_NS)
		took = PATIENCE_NS;
	live_of(server)->arm_ns = took > usual ? took : usual;
	capture->armed_step = message->step;
	capture->state = STATE_RUNNING;
	if (!capture->noting)
		capture_accepted(capture);
}
