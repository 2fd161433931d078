/* capture.c - see capture.h. Thread: the loop's. No locks. */
#include "capture.h"
#include "daemon/catalogue/audit.h"
#include "daemon/catalogue/catalogue.h"
#include "daemon/catalogue/retention.h"
#include "daemon/catalogue/usage.h"
#include "daemon/core/connection.h"
#include "daemon/core/server.h"
#include "live.h"
#include "daemon/catalogue/captures.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/core/namespaces.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How long an agent may take to answer ARM, and to send DONE after CANCEL. */
#define ANSWER_NS 2000000000ull
#define CANCEL_NS 3000000000ull
/* At most ten rows of progress a second for each capture. */
#define PROGRESS_NS 90000000ull

static uint32_t header_load(const _Atomic uint32_t *value)
{
	return atomic_load_explicit(value, memory_order_acquire);
}

struct capture *capture_add(struct server *server, const struct capture_facts *facts)
{
	struct capture *capture = calloc(1, sizeof *capture);
	if (!capture)
		return NULL;
	capture->server = server;
	capture->facts = *facts;
	capture->kept_fd = -1;
	capture->next = live_of(server)->captures;
	if (capture->next)
		capture->next->previous = capture;
	live_of(server)->captures = capture;
	live_of(server)->capture_count++;
	if (live_of(server)->trim_peak < live_of(server)->capture_count)
		live_of(server)->trim_peak = live_of(server)->capture_count;
	return capture;
}

void capture_charge(struct capture *capture, struct quota_user *user, uint64_t bytes)
{
	capture->user = quota_user_ref(user);
	capture->memory = bytes;
	quota_capture_begin(capture->server, user, bytes);
}

static void capture_remove(struct capture *capture)
{
	struct server *server = capture->server;
	if (capture->previous)
		capture->previous->next = capture->next;
	else
		live_of(server)->captures = capture->next;
	if (capture->next)
		capture->next->previous = capture->previous;
	live_of(server)->capture_count--;
	if (capture->kept_fd >= 0)
		close(capture->kept_fd);
	if (capture->kept && capture->state != STATE_PARKING)
		manager_unkeep(&server->manager, capture->facts.number);
	ingest_free(capture->ingest);
	quota_capture_end(capture->user, capture->memory);
	quota_user_unref(capture->user);
	free(capture);
	live_trim(server);
}

struct capture *capture_find(struct server *server, uint64_t number)
{
	for (struct capture *capture = live_of(server)->captures; capture; capture = capture->next)
		if (capture->facts.number == number && capture->state != STATE_DROPPED)
			return capture;
	return NULL;
}

bool capture_is_running(const struct capture *capture)
{
	return capture->state == STATE_ASKED || capture->state == STATE_RUNNING;
}

struct capture *capture_of_process(const struct process *process)
{
	struct capture *best = NULL;
	for (struct capture *capture = live_of(process->server)->captures; capture; capture = capture->next)
		if (capture->process == process && capture_is_running(capture) &&
		    (!best || capture->facts.number < best->facts.number))
			best = capture;
	return best;
}

enum capture_status capture_status_now(const struct capture *capture)
{
	switch (capture->state) {
	case STATE_ENDING:
	case STATE_FINISHING:
	case STATE_ORPHAN:
		return CAPTURE_FINISHING;
	case STATE_STORING:
		return capture->facts.status;
	case STATE_ASKED:
	case STATE_RUNNING:
	case STATE_PARKING:
	case STATE_DROPPED:
		break;
	}
	if (!capture->ingest || !capture->ingest->has_segment)
		return CAPTURE_ARMED;
	switch (header_load(&capture->ingest->segment.header->phase)) {
	case SEGMENT_ARMED:
		return CAPTURE_ARMED;
	case SEGMENT_WARMUP:
		return CAPTURE_WARMUP;
	case SEGMENT_RECORD:
		return CAPTURE_RECORDING;
	default:
		return CAPTURE_FINISHING;
	}
}

/* --- the catalogue --- */

struct put_work {
	struct work work;
	struct server *server;
	struct capture_facts facts;
};

static int64_t put_run(struct work *work)
{
	struct put_work *put = (struct put_work *)work;
	catalogue_put_capture(catalogue_of(put->server), &put->facts);
	free(put);
	return WORK_DONE;
}

/* Writes the row as it stands; nobody waits for it. */
void capture_catalogue(struct capture *capture)
{
	struct put_work *put = calloc(1, sizeof *put);
	if (!put)
		return; /* the final row says all */
	put->work.run = put_run;
	put->server = capture->server;
	put->facts = capture->facts;
	capture->catalogued = true;
	if (!catalogue_submit(catalogue_of(capture->server), &put->work))
		free(put);
}

static int64_t store_run_final(struct work *work)
{
	struct capture *capture = (struct capture *)((char *)work - offsetof(struct capture, store_work));
	capture->unwritten = catalogue_put_capture(catalogue_of(capture->server), &capture->facts) != 0;
	return WORK_DONE;
}

static void stored(struct work *work);

/* Without a row nobody finds it: as long as the disk is full it is tried again. */
#define RETRY_NS 1000000000ull
static void store_row(struct capture *capture)
{
	capture->retry_at = 0;
	capture->store_work = (struct work){.run = store_run_final, .done = stored};
	if (!catalogue_submit(catalogue_of(capture->server), &capture->store_work))
		capture->retry_at = clock_monotonic() + RETRY_NS;
}

static void tell_stored(struct capture *capture)
{
	struct server *server = capture->server;
	usage_add(usage_of(server), capture->facts.who.uid, 1, capture->facts.bytes);
	log_line("capture %s%llu of pid %d: %s%s%s, %llu steps, %llu events, %llu lost", server->user ? "u" : "",
		 (unsigned long long)capture->facts.number, capture->facts.who.pid,
		 capture_status_word(capture->facts.status), *capture->facts.reason ? ": " : "", capture->facts.reason,
		 (unsigned long long)capture->facts.steps_recorded, (unsigned long long)capture->facts.events,
		 (unsigned long long)capture->facts.lost);
	if (capture->trigger && capture->trigger->conn)
		retention_hold(server, capture->facts.number, capture->facts.who.pid, capture->trigger->conn);
	if (capture->trigger)
		trigger_captured(capture->trigger, capture);
	capture->trigger = NULL;
}

static void stored(struct work *work)
{
	struct capture *capture = (struct capture *)((char *)work - offsetof(struct capture, store_work));
	struct server *server = capture->server;
	bool first = !capture->told_stored;
	capture->told_stored = true;
	if (first)
		tell_stored(capture);
	if ((work->failed || capture->unwritten) && !server->closing) {
		if (first)
			log_line("capture %llu: its row cannot be written; trying again",
				 (unsigned long long)capture->facts.number);
		capture->retry_at = clock_monotonic() + RETRY_NS;
		server_tick_adjust(server);
		return;
	}
	capture_remove(capture);
	retention_look(server);
}

/* --- the end --- */

static void finished(struct work *work)
{
	struct ingest *ingest = (struct ingest *)work;
	struct capture *capture = ingest->owner;
	uint64_t step_after = capture->facts.step_after;
	capture->facts = ingest->facts;
	capture->facts.step_after = step_after;
	counters_captured(&capture->server->counters, &ingest->facts, ingest->lost, ingest->events_taken,
			  ingest->finish_ns);
	ingest_free(ingest);
	capture->ingest = NULL;
	if (capture->process) {
		struct message_finish finish = MESSAGE_INIT(FINISH, finish);
		finish.capture = capture->facts.number;
		finish.wanted = 1;
		conn_send(capture->process->conn, &finish, sizeof finish, -1);
	}
	capture->state = STATE_STORING;
	store_row(capture);
}

static void fill_ending(struct capture *capture)
{
	struct ingest *ingest = capture->ingest;
	struct store_ending *ending = &ingest->ending;
	const struct message_done *done = &capture->done;
	ingest->facts = capture->facts;
	ingest->finish_most = capture->server->config.finish_time;
	memcpy(ending->collectors, capture->collectors, sizeof ending->collectors);
	ending->done_at = capture->done_at;
	ending->has_done = capture->has_done;
	if (capture->has_done) {
		ending->step_before = done->step_before;
		ending->step_during = done->step_during;
		ending->enable = done->enable;
		ending->drain = done->drain;
		ending->agent_cpu = done->agent_cpu;
		ending->agent_bytes = done->agent_bytes;
		ending->other_thread_steps = done->other_thread_steps;
		ending->late = done->late;
		ending->step_source = done->step_source;
	}
	text_copy(ending->step_range, sizeof ending->step_range, capture->arm.step_range);
	capture_id_text(capture->facts.number, capture->server->user, ending->id);
	trigger_id_text(capture->facts.trigger, capture->server->user, ending->trigger_id);
}

/* On the finish pool: a segment of which all is in the file, or given up, takes nobody's memory any more. An agent that wakes
 * up late finds it empty, and what it writes there is its own. */
static int64_t finish_run(struct work *work)
{
	struct ingest *ingest = (struct ingest *)work;
	uint64_t began = clock_monotonic();
	int64_t again = ingest_finish(work);
	ingest->finish_ns = clock_monotonic() - began;
	if (ingest->has_segment)
		segment_forget(&ingest->segment);
	return again;
}

static void ingested(struct work *work)
{
	struct ingest *ingest = (struct ingest *)work;
	struct capture *capture = ingest->owner;
	if (capture->server->closing)
		return;
	if (capture->state == STATE_DROPPED) {
		segment_forget(&ingest->segment);
		store_discard(ingest->store);
		ingest->store_open = false;
		capture_remove(capture);
		return;
	}
	if (capture->state == STATE_PARKING) {
		log_verbose("capture %llu of pid %d is left to its agent and the next daemon",
			    (unsigned long long)capture->facts.number, capture->facts.who.pid);
		capture_remove(capture);
		return;
	}
	capture->state = STATE_FINISHING;
	fill_ending(capture);
	ingest->work.run = finish_run;
	ingest->work.done = finished;
	work_submit(&live_of(capture->server)->finish_pool, &ingest->work);
}

void capture_submit(struct capture *capture)
{
	if (capture->submitted)
		return;
	capture->submitted = true;
	capture->ingest->parked = capture->parked;
	capture->ingest->owner = capture;
	capture->ingest->events_most = capture->server->config.capture_events;
	capture->ingest->flow = &capture->server->counters.flow;
	capture->ingest->work.done = ingested;
	capture->ingest->work.owner = capture->user ? capture->user->uid : capture->facts.who.uid;
	work_submit(&live_of(capture->server)->ingest_pool, &capture->ingest->work);
}

void capture_end(struct capture *capture)
{
	if (capture->state >= STATE_DROPPED)
		return;
	if (!capture->done_at)
		capture->done_at = clock_monotonic();
	capture->state = STATE_ENDING;
	capture_submit(capture);
	atomic_store_explicit(&capture->ingest->wish, INGEST_END, memory_order_release);
	work_kick(&live_of(capture->server)->ingest_pool, &capture->ingest->work);
}

void capture_drop(struct capture *capture)
{
	if (capture->state >= STATE_DROPPED)
		return;
	if (capture->trigger) {
		capture->trigger->running--;
		capture->trigger = NULL;
	}
	capture->process = NULL;
	capture->state = STATE_DROPPED;
	capture_submit(capture);
	atomic_store_explicit(&capture->ingest->wish, INGEST_END, memory_order_release);
	work_kick(&live_of(capture->server)->ingest_pool, &capture->ingest->work);
}

static void incomplete(struct capture *capture, enum cancel_reason code, const char *reason)
{
	capture->facts.status = CAPTURE_INCOMPLETE;
	capture->facts.reason_code = code;
	text_copy(capture->facts.reason, sizeof capture->facts.reason, reason);
}

static unsigned steps_so_far(const struct capture *capture)
{
	if (!capture->ingest || !capture->ingest->has_segment)
		return 0;
	uint32_t steps = header_load(&capture->ingest->segment.header->steps_recorded);
	return steps > capture->facts.steps_wanted ? (unsigned)capture->facts.steps_wanted : steps;
}

static void incomplete_after(struct capture *capture, enum cancel_reason code, const char *what)
{
	char reason[REASON_BYTES];
	if (capture->arm.duration)
		snprintf(reason, sizeof reason, "%s", what);
	else
		snprintf(reason, sizeof reason, "%s after %u of %llu steps", what, steps_so_far(capture),
			 (unsigned long long)capture->facts.steps_wanted);
	incomplete(capture, code, reason);
}

#define TIME_LIMIT_TEXT_BYTES 64
static const char *time_limit_text(const struct capture *capture, char ret[TIME_LIMIT_TEXT_BYTES])
{
	uint64_t milliseconds = capture->time_limit / 1000000;
	bool seconds = milliseconds % 1000 == 0;
	snprintf(ret, TIME_LIMIT_TEXT_BYTES, "the time limit of %llu %s came",
		 (unsigned long long)(seconds ? milliseconds / 1000 : milliseconds), seconds ? "s" : "ms");
	return ret;
}

/* --- the beginning --- */

static uint32_t chunk_bytes_for(uint64_t event_bytes)
{
	uint32_t bytes = LIMIT_CHUNK_BYTES;
	while (bytes > LIMIT_CHUNK_BYTES_MIN && event_bytes / bytes < 64)
		bytes /= 2;
	return bytes;
}

struct capture *capture_new(struct process *process, struct trigger *trigger, const struct message_arm *arm,
			    enum error *ret_error, char sentence[SENTENCE_BYTES])
{
	struct server *server = process->server;
	if (!retention_allows(server, process->who.uid, sentence, SENTENCE_BYTES)) {
		*ret_error = ERROR_NO_SPACE;
		return NULL;
	}
	struct capture_facts facts = {.number = live_of(server)->next_capture++,
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
	/* With the first cycle the schedule was accepted: of each process two segments at most are under way. */
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
	capture->process = process;
	capture->trigger = trigger;
	capture->arm = *arm;
	capture->arm.capture = facts.number;
	capture->asked_at = clock_monotonic();
	capture->deadline = trigger->deadline;
	capture->time_limit = trigger->request.timeout ? trigger->request.timeout : LIMIT_DURATION_NS;
	for (unsigned bit = 0; bit < COLLECTOR_COUNT; bit++)
		capture->collectors[bit].wanted = arm->collectors >> bit & 1;
	capture->parked = (struct parked){.arm = capture->arm,
					  .deadline = capture->deadline,
					  .time_limit = capture->time_limit,
					  .max_bytes = trigger->request.max_bytes,
					  .timeout = trigger->request.timeout};
	/* A later cycle is not answered: the schedule has been accepted. */
	capture->state = arm->cycle ? STATE_RUNNING : STATE_ASKED;
	trigger->running++;
	conn_send(process->conn, &capture->arm, sizeof capture->arm, segment.fd);
	/* The ingest begins when the agent has answered: its first work must not stand between ARM and ARMED. */
	if (arm->cycle)
		capture_submit(capture);
	server_tick_adjust(server);
	return capture;
}

void capture_cancel(struct capture *capture, enum cancel_reason reason)
{
	if (capture->state == STATE_ORPHAN && !capture->cancel)
		capture->cancel = reason; /* its agent is told when it comes back */
	if (!capture_is_running(capture) || capture->cancel)
		return;
	capture->cancel = reason;
	capture->cancelled_at = clock_monotonic();
	if (!capture->process)
		return;
	struct message_cancel cancel = MESSAGE_INIT(CANCEL, cancel);
	cancel.capture = capture->facts.number;
	cancel.reason = reason;
	conn_send(capture->process->conn, &cancel, sizeof cancel, -1);
}

bool capture_give_up(struct capture *capture)
{
	if (capture->state != STATE_ENDING && capture->state != STATE_FINISHING)
		return false;
	atomic_store_explicit(&capture->ingest->give_up, 1, memory_order_relaxed);
	return true;
}

void captures_out_of_space(struct server *server, const struct space *space)
{
	for (struct capture *capture = live_of(server)->captures; capture; capture = capture->next) {
		if (!capture_is_running(capture) || !capture->ingest || !atomic_load(&capture->ingest->low))
			continue;
		if (space && !capture->cancel) {
			space_ended_sentence(space, capture->cancel_text, sizeof capture->cancel_text);
			capture_cancel(capture, REASON_DAEMON);
		} else if (!space) {
			atomic_store(&capture->ingest->low, 0);
		}
	}
}

/* --- messages --- */

static void on_armed(struct capture *capture, const struct message_armed *message)
{
	struct server *server = capture->server;
	uint64_t took = clock_monotonic() - capture->asked_at, usual = live_of(server)->arm_ns / 8 * 7;
	if (capture->state != STATE_ASKED)
		return;
	live_of(server)->arm_ns = took > usual ? took : usual;
	capture->armed_step = message->step;
	capture->state = STATE_RUNNING;
	if (capture->trigger)
		trigger_answered(capture->trigger, capture, ERROR_NONE, "");
	capture_submit(capture);
	capture_catalogue(capture);
}

static void on_declined(struct capture *capture, const struct message_declined *message)
{
	enum error error = error_word(message->error) ? (enum error)message->error : ERROR_FAILED;
	if (capture->state == STATE_ASKED) {
		struct trigger *trigger = capture->trigger;
		if (trigger)
			trigger_answered(trigger, capture, error, message->sentence);
		capture_drop(capture);
		return;
	}
	if (capture->state != STATE_RUNNING)
		return;
	if (capture->facts.cycle && error == ERROR_CANCELLED) {
		capture_drop(capture);
		return;
	}
	incomplete(capture, REASON_AGENT,
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
	capture->parked.collectors[message->collector] = *message;
	hear(capture, message, message->collector, message->enable);
	/* It says so too of what it records besides. Agents of earlier builds do this themselves, which comes to the same. */
	uint32_t parts = collector_parts(message->collector);
	for (unsigned bit = 0; bit < COLLECTOR_COUNT; bit++)
		if (parts >> bit & 1 && capture->collectors[bit].wanted)
			hear(capture, message, bit, 0);
}

static void on_done(struct capture *capture, const struct message_done *message)
{
	char limit[TIME_LIMIT_TEXT_BYTES];
	if (!capture_is_running(capture))
		return;
	capture->done = *message;
	capture->has_done = true;
	capture->done_at = clock_monotonic();
	if (message->reason == REASON_NONE) {
		capture->facts.status = CAPTURE_COMPLETE;
		cycles_follow_up(capture);
	} else if (capture->facts.cycle && message->steps == 0 && !capture->catalogued) {
		/* Cancelled between two cycles: the next had not begun, and nobody has heard of it. */
		capture_drop(capture);
		return;
	} else if (message->reason == REASON_CANCELLED || message->reason == REASON_LIMIT ||
		   message->reason == REASON_MISSED || message->reason == REASON_AGENT) {
		incomplete(capture, (enum cancel_reason)message->reason, cancel_reason_sentence(message->reason));
	} else if (message->reason == REASON_DEADLINE) {
		incomplete_after(capture, REASON_DEADLINE, time_limit_text(capture, limit));
	} else {
		const char *why = message->reason == REASON_DAEMON && *capture->cancel_text
					  ? capture->cancel_text
					  : cancel_reason_sentence(message->reason);
		incomplete_after(capture, why ? (enum cancel_reason)message->reason : REASON_AGENT,
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
	for (struct capture *capture = live_of(process->server)->captures; capture; capture = capture->next)
		if (capture->facts.number == number && capture->process == process)
			return capture;
	return NULL;
}

static void send_finish(struct process *process, uint64_t number, uint32_t wanted)
{
	/* What this daemon has parked it knows no more; the agent keeps it for the next. */
	if (process->server->parking && !wanted)
		return;
	struct message_finish finish = MESSAGE_INIT(FINISH, finish);
	finish.capture = number;
	finish.wanted = wanted;
	conn_send(process->conn, &finish, sizeof finish, -1);
}

void capture_message(struct process *process, const union message_any *message, int fd)
{
	struct capture *capture = NULL;
	switch (message->head.type) {
	case MESSAGE_ARMED:
		capture = of_agent(process, message->armed.capture);
		if (capture)
			on_armed(capture, &message->armed);
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
		break;
	case MESSAGE_AFTER:
		capture_after(process, &message->after);
		break;
	case MESSAGE_OFFER:
		/* While this daemon leaves, it is for the next: further cycles could not follow here. */
		if (process->server->parking)
			break;
		if (orphan_offered(process, &message->offer, fd))
			send_finish(process, message->offer.capture, 0);
		break;
	default:
		break;
	}
	server_tick_adjust(process->server);
}

void capture_process_gone(struct process *process)
{
	bool alive = !process_has_ended(process->who.pid, process->who.start_time);
	for (struct capture *capture = live_of(process->server)->captures, *next; capture; capture = next) {
		next = capture->next;
		if (capture->process != process)
			continue;
		if (capture->state == STATE_ASKED) {
			if (capture->trigger) {
				char pid[16];
				char sentence[SENTENCE_BYTES];
				snprintf(pid, sizeof pid, "%d", process->who.pid);
				error_text(ERROR_GONE, pid, sentence);
				trigger_answered(capture->trigger, capture, ERROR_GONE, sentence);
			}
			capture_drop(capture);
		} else if (capture->state == STATE_RUNNING) {
			if (capture->facts.cycle && capture_status_now(capture) == CAPTURE_ARMED) {
				capture_drop(capture);
			} else {
				incomplete_after(capture, alive ? REASON_AGENT : REASON_DIED,
						 alive ? "the agent's connection ended while the process lives (has it "
							 "started another program?),"
						       : "the process ended");
				capture_end(capture);
			}
		}
		capture->process = NULL;
	}
}

/* --- time --- */

/* Has its agent kept us waiting so long? What it has said already, and we have not come to read, is no fault of its own; one
 * that never stops talking gains little by it. */
static bool overdue(const struct capture *capture, uint64_t since, uint64_t patience, uint64_t now)
{
	if (now < since + patience)
		return false;
	struct pollfd unread = {capture->process ? capture->process->conn->fd : -1, POLLIN, 0};
	return now > since + 4 * patience || poll(&unread, 1, 0) <= 0;
}

void capture_tick(struct capture *capture, uint64_t now)
{
	if (capture->state == STATE_ORPHAN) {
		orphan_tick(capture, now);
		return;
	}
	if (!capture_is_running(capture)) {
		if (capture->state == STATE_STORING && capture->retry_at && now > capture->retry_at)
			store_row(capture);
		if (capture->trigger)
			trigger_progress(capture->trigger, capture, now);
		return;
	}
	if (capture->state == STATE_ASKED && overdue(capture, capture->asked_at, ANSWER_NS, now)) {
		capture_cancel(capture, REASON_DEADLINE);
		if (capture->trigger)
			trigger_answered(capture->trigger, capture, ERROR_FAILED,
					 "its agent does not answer; is the process stopped?");
		/* What it does not read waits in its socket, descriptors too: no more of it until it says something. */
		if (capture->process)
			capture->process->silent = true;
		capture_drop(capture);
		return;
	}
	if (atomic_load_explicit(&capture->ingest->trouble, memory_order_acquire))
		capture_cancel(capture, REASON_DAEMON);
	else if (atomic_load_explicit(&capture->ingest->over, memory_order_acquire))
		capture_cancel(capture, REASON_LIMIT);
	else if (atomic_load_explicit(&capture->ingest->low, memory_order_acquire) && !capture->cancel)
		retention_press(capture->server);
	if (capture->deadline && now > capture->deadline)
		capture_cancel(capture, REASON_DEADLINE);
	if (capture->cancelled_at && overdue(capture, capture->cancelled_at, CANCEL_NS, now)) {
		if (capture->facts.cycle && capture_status_now(capture) == CAPTURE_ARMED) {
			capture_drop(capture);
			return;
		}
		char limit[TIME_LIMIT_TEXT_BYTES], what[REASON_BYTES];
		snprintf(what, sizeof what, "%.300s, and its agent did not answer (is the process stopped?),",
			 capture->cancel == REASON_DEADLINE ? time_limit_text(capture, limit)
			 : *capture->cancel_text	    ? capture->cancel_text
							    : cancel_reason_sentence(capture->cancel));
		incomplete_after(capture, capture->cancel, what);
		capture_end(capture);
		cycles_drop(capture);
		return;
	}
	if (!capture->kept && capture->state == STATE_RUNNING)
		capture->kept =
			manager_keep(&capture->server->manager, capture->facts.number, capture->ingest->segment.fd);
	enum capture_status status = capture_status_now(capture);
	if (!capture->catalogued && status >= CAPTURE_WARMUP && capture->state == STATE_RUNNING)
		capture_catalogue(capture);
	if (status >= CAPTURE_RECORDING)
		cycles_follow_up(capture);
	if (capture->trigger)
		trigger_progress(capture->trigger, capture, now);
}

void trigger_progress(struct trigger *trigger, struct capture *capture, uint64_t now)
{
	struct conn *conn = trigger->conn;
	if (!conn || conn->queued > CONN_QUEUE_BYTES / 2 || now < capture->told_at + PROGRESS_NS)
		return;
	bool cycle_unbegun = capture->facts.cycle && capture_status_now(capture) == CAPTURE_ARMED;
	if (capture->state == STATE_ASKED || capture->state == STATE_STORING || cycle_unbegun)
		return;
	uint32_t status = capture_status_now(capture), steps = capture->told_steps, warmup = capture->told_warmup;
	if (capture->ingest && capture->ingest->has_segment && capture->state == STATE_RUNNING) {
		steps = steps_so_far(capture);
		warmup = header_load(&capture->ingest->segment.header->steps_warmup);
	}
	if (capture->told_at && status == capture->told_status && steps == capture->told_steps &&
	    warmup == capture->told_warmup)
		return;
	capture->told_at = now;
	capture->told_status = status;
	capture->told_steps = steps;
	capture->told_warmup = warmup;
	char id[ID_BYTES];
	capture_id_text(capture->facts.number, trigger->server->user, id);
	cJSON *row = conn_row_new("progress");
	cJSON_AddStringToObject(row, "capture_id", id);
	registry_add_pid(row,
			 namespace_pid(&capture->facts.who, trigger->server->pid_namespace, trigger->pid_namespace));
	if (capture->facts.who.rank >= 0)
		cJSON_AddNumberToObject(row, "rank", capture->facts.who.rank);
	else
		cJSON_AddNullToObject(row, "rank");
	cJSON_AddStringToObject(row, "status", capture_status_word(status));
	cJSON_AddNumberToObject(row, "step", steps);
	cJSON_AddNumberToObject(row, "of", (double)capture->facts.steps_wanted);
	cJSON_AddNumberToObject(row, "warmup_step", warmup);
	cJSON_AddNumberToObject(row, "elapsed", (double)(now - trigger->began));
	conn_row(conn, row);
}
