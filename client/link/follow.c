/* follow.c - see follow.h. One thread; SIGINT is blocked but while it waits in ppoll. */
#include "follow.h"

#include "client/ui/clock.h"
#include "client/ui/interrupt.h"
#include "client/ui/json.h"
#include "client/ui/progress.h"
#include "client/ui/text.h"
#include "collect.h"
#include "follow_rows.h"
#include "follow_tell.h"
#include "presence.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* How long captures that were cancelled may take to come in. */
#define CANCEL_WAIT_NS 10000000000ll
#define REDRAW_NS 100000000ll
/* A daemon has ended: for this long we wait for the next one. The system's may be in an upgrade; a user's own seldom
 * comes back by itself, and where it does it takes seconds on a full machine. LOOK_NS: how often we look for it. ASK_NS: how often we ask it. */
#define RETURN_NS 15000000000ll
#define RETURN_USER_NS 8000000000ll
#define LOOK_NS 50000000ll
/* We follow a hundred restarts. A daemon that ends at every request is not asked for ever. */
#define TRIES 500
#define ASK_NS 250000000ll
/* An agent comes back within a quarter of the time that there was no daemon. */
#define AGENT_RETURN_NS 5000000000ll
/* Captures of one trigger: beyond what a daemon arms. */
#define TRIGGER_CAPTURES 100000
/* Rows that are kept of them: two of each, that it is armed and that it is finished. */
#define KEPT_CAPTURES (size_t)(2 * TRIGGER_CAPTURES)

static void ask_cancel(struct follow *follow, unsigned daemon, const char *key, const char *id)
{
	struct daemon other = follow->daemons->list[daemon];
	cJSON *request;
	struct failure failure;
	struct collect none = {"none", NULL};

	/* The connection is busy with the trigger's own answer. */
	other.fd = socket_connect(other.path);
	if (other.fd < 0)
		return;
	request = request_new("cancel");
	json_add_text(request, key, id);
	daemon_query(&other, request, collect_row, &none, &failure);
	cJSON_Delete(request);
	close(other.fd);
}

static void cancel_daemon(struct follow *follow, unsigned daemon)
{
	if (follow->trigger_id[daemon][0]) {
		ask_cancel(follow, daemon, "trigger_id", follow->trigger_id[daemon]);
		return;
	}
	/* The trigger is not accepted yet and has no id. What is armed already is ended one by one, the rest when the
	 * id comes. */
	for (size_t i = 0; i < follow->count; i++)
		if (follow->captures[i].daemon == daemon && !follow->captures[i].captured)
			ask_cancel(follow, daemon, "capture_id", follow->captures[i].id);
}

/* --- with the next daemon --- */

static void lose(struct follow *follow, unsigned daemon, const struct failure *failure)
{
	struct follow_link *link = &follow->links[daemon];

	if (link->state == LINK_FOLLOWS)
		note("the daemon at %s has ended; waiting for it to come back", follow->daemons->list[daemon].path);
	link->failure = *failure;
	link->state = LINK_LOST;
	if (link->tries++ >= TRIES)
		link->at = 0;
	else
		link->at = clock_now() + (follow->daemons->list[daemon].user ? RETURN_USER_NS : RETURN_NS);
}

static void give_up(struct follow *follow, unsigned daemon)
{
	follow->open[daemon] = false;
	follow->cut_off = true;
	failure_merge(&follow->failure, &follow->links[daemon].failure);
}

static void send_again(struct follow *follow, unsigned daemon)
{
	struct follow_link *link = &follow->links[daemon];
	struct failure failure;

	link->state = LINK_FOLLOWS;
	if (!daemon_send(&follow->daemons->list[daemon], link->request, &failure))
		lose(follow, daemon, &failure);
}

/* The next daemon is there. If nothing was armed, the request is sent again; else the daemon is asked what became of
 * the captures. */
static void rejoin(struct follow *follow, unsigned daemon)
{
	struct follow_link *link = &follow->links[daemon];

	if (follow_any_known(follow, daemon) && !follow->trigger_id[daemon][0]) {
		/* A daemon of an older release has not told. */
		give_up(follow, daemon);
		return;
	}
	if (!follow_any_known(follow, daemon)) {
		link->agents_until = clock_now() + AGENT_RETURN_NS;
		send_again(follow, daemon);
		return;
	}
	if (!follow->follow) {
		follow->open[daemon] = false;
		return;
	}
	if (follow->cancelled)
		cancel_daemon(follow, daemon);
	link->state = LINK_RESTS;
	link->at = clock_now();
}

static void ask(struct follow *follow, unsigned daemon)
{
	struct follow_link *link = &follow->links[daemon];
	cJSON *request = request_new("captures");
	struct failure failure;

	json_add_text(request, "trigger_id", follow->trigger_id[daemon]);
	cJSON_AddNumberToObject(request, "limit", TRIGGER_CAPTURES);
	link->unfinished = false;
	link->state = LINK_ASKED;
	if (!daemon_send(&follow->daemons->list[daemon], request, &failure))
		lose(follow, daemon, &failure);
	cJSON_Delete(request);
}

/* What is due. Returns when it is next (CLOCK_MONOTONIC ns). */
static int64_t pursue(struct follow *follow, unsigned daemon)
{
	struct follow_link *link = &follow->links[daemon];

	if (link->state == LINK_LOST && clock_now() >= link->at)
		give_up(follow, daemon);
	else if (link->state == LINK_LOST && daemon_reconnect(&follow->daemons->list[daemon]))
		rejoin(follow, daemon);
	else if (link->state == LINK_RESTS && clock_now() >= link->at)
		ask(follow, daemon);
	else if (link->state == LINK_LATER && clock_now() >= link->at)
		send_again(follow, daemon);
	if (follow->open[daemon] && link->state == LINK_LOST)
		return clock_now() + LOOK_NS;
	bool waits = link->state == LINK_RESTS || link->state == LINK_LATER;
	return follow->open[daemon] && waits ? link->at : INT64_MAX;
}

static void take_asked(struct follow *follow, unsigned daemon, const cJSON *row)
{
	struct followed *followed = follow_capture_of(follow, daemon, row);
	const char *status = json_text(row, "status");
	bool finished = status && (strcmp(status, "complete") == 0 || strcmp(status, "incomplete") == 0 ||
				   strcmp(status, "failed") == 0);

	if (!followed || !status || followed->captured)
		return;
	if (finished) {
		follow_take_captured(follow, daemon, row);
		return;
	}
	follow->links[daemon].unfinished = true;
	followed->step = (int64_t)json_number(row, "steps_recorded", 0);
	followed->of = (int64_t)json_number(row, "steps_wanted", 0);
	/* "finishing" says nothing new: it is all that a daemon knows until the agent has come back. */
	if (strcmp(status, "finishing") != 0)
		follow_set_status(followed, status);
}

static void asked(struct follow *follow, unsigned daemon, const cJSON *end)
{
	struct follow_link *link = &follow->links[daemon];

	if (link->unfinished || json_number(end, "running", 0) > 0) {
		link->state = LINK_RESTS;
		link->at = clock_now() + ASK_NS;
		return;
	}
	follow->open[daemon] = false;
	/* A capture that the next daemon does not know is lost. */
	for (size_t i = 0; i < follow->count; i++)
		if (follow->captures[i].daemon == daemon && !follow->captures[i].captured) {
			give_up(follow, daemon);
			return;
		}
}

static void take_packet(struct follow *follow, unsigned daemon, const cJSON *packet)
{
	struct failure failure;
	const char *id;

	if (reply_is_row(packet, "capture")) {
		take_asked(follow, daemon, packet);
	} else if (reply_is_row(packet, "target")) {
		follow_take_target(follow, daemon, packet);
	} else if (reply_is_row(packet, "together")) {
		follow_take_together(follow, packet);
	} else if (reply_is_row(packet, "switched")) {
		follow_take_switched(follow, packet);
	} else if (reply_is_row(packet, "accepted")) {
		id = json_text(packet, "trigger_id");
		snprintf(follow->trigger_id[daemon], FOLLOW_ID_BYTES, "%s", id ? id : "");
		if (follow->cancelled)
			cancel_daemon(follow, daemon);
	} else if (reply_is_row(packet, "progress")) {
		follow_take_progress(follow, daemon, packet);
	} else if (reply_is_row(packet, "captured")) {
		follow_take_captured(follow, daemon, packet);
	} else if (reply_error(packet, &failure)) {
		if (follow_is_too_early(follow, daemon, &failure)) {
			/* It is the last packet of this answer. */
			follow->links[daemon].state = LINK_LATER;
			follow->links[daemon].at = clock_now() + ASK_NS;
			return;
		}
		if (failure.pid)
			follow_refuse(follow, &failure);
		else
			failure_merge(&follow->failure, &failure);
		follow->open[daemon] = false;
	}
	if (!reply_is_end(packet))
		return;
	if (follow->links[daemon].state == LINK_ASKED && follow->open[daemon])
		asked(follow, daemon, packet);
	else
		follow->open[daemon] = false;
}

static void receive(struct follow *follow, unsigned daemon)
{
	cJSON *packet;
	struct failure failure;
	size_t before = follow->kept_rows;
	int received = daemon_receive(&follow->daemons->list[daemon], 0, &packet, NULL, &failure);

	if (received == RECEIVE_CLOSED) {
		lose(follow, daemon, &failure);
	} else if (received == RECEIVE_BROKEN) {
		follow->open[daemon] = false;
		follow->cut_off = true;
		failure_merge(&follow->failure, &failure);
	} else if (received == RECEIVE_PACKET) {
		take_packet(follow, daemon, packet);
		/* Progress is told again and again, and is not kept. */
		if (follow->kept_rows > before && !reply_keep(&follow->kept[daemon], KEPT_CAPTURES, packet,
							      &follow->daemons->list[daemon], &failure)) {
			follow->open[daemon] = false;
			follow->cut_off = true;
			failure_merge(&follow->failure, &failure);
		}
		cJSON_Delete(packet);
	}
}

static bool any_open(const struct follow *follow)
{
	for (unsigned i = 0; i < follow->daemons->count; i++)
		if (follow->open[i])
			return true;
	return false;
}

static bool is_heard(const struct follow *follow, unsigned daemon)
{
	return follow->open[daemon] &&
	       (follow->links[daemon].state == LINK_FOLLOWS || follow->links[daemon].state == LINK_ASKED);
}

static void work(struct follow *follow, const sigset_t *waiting)
{
	int64_t until = clock_now() + follow->give_up_ns;
	int handled = 0;

	while (any_open(follow)) {
		struct pollfd pollers[DAEMONS_MAX];
		int64_t left = until - clock_now(), due = INT64_MAX;
		struct timespec wait;

		if (left <= 0) {
			follow->timed_out = true;
			return;
		}
		for (unsigned i = 0; i < follow->daemons->count; i++) {
			int64_t next = follow->open[i] ? pursue(follow, i) : INT64_MAX;

			due = next < due ? next : due;
		}
		if (!any_open(follow))
			return;
		if (due != INT64_MAX && due - clock_now() < left)
			left = due > clock_now() ? due - clock_now() : 0;
		wait = (struct timespec){.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
		follow_draw(follow);
		/* The daemon tells only changes. The line shows the time that passes, so it is redrawn. */
		if (follow->window && progress_live() && left > REDRAW_NS)
			wait = (struct timespec){.tv_nsec = REDRAW_NS};
		for (unsigned i = 0; i < follow->daemons->count; i++)
			pollers[i] = (struct pollfd){.fd = is_heard(follow, i) ? follow->daemons->list[i].fd : -1,
						     .events = POLLIN};
		if (ppoll(pollers, follow->daemons->count, &wait, waiting) > 0)
			for (unsigned i = 0; i < follow->daemons->count; i++)
				if (pollers[i].revents)
					receive(follow, i);
		if (interrupt_count() > handled) {
			handled = interrupt_count();
			if (follow->cancelled)
				return;
			follow->cancelled = true;
			until = clock_now() + CANCEL_WAIT_NS;
			if (!progress_live())
				note("cancelling; Ctrl-C again leaves at once");
			for (unsigned i = 0; i < follow->daemons->count; i++)
				if (follow->open[i])
					cancel_daemon(follow, i);
		}
	}
}

void follow_run(struct follow *follow, cJSON *const request[DAEMONS_MAX])
{
	struct interrupt interrupt;
	struct failure failure;

	interrupt_begin(&interrupt);
	for (unsigned i = 0; i < follow->daemons->count; i++) {
		if (!request[i])
			continue;
		follow->links[i] = (struct follow_link){.request = request[i]};
		if (daemon_send(&follow->daemons->list[i], request[i], &failure))
			follow->open[i] = true;
		else
			failure_merge(&follow->failure, &failure);
	}
	work(follow, &interrupt.waiting);
	progress_clear();
	interrupt_end(&interrupt);
}

void follow_deinit(struct follow *follow)
{
	for (size_t i = 0; i < follow->count; i++)
		cJSON_Delete(follow->captures[i].captured);
	free(follow->captures);
	free(follow->refused);
	cJSON_Delete(follow->left_out);
	cJSON_Delete(follow->together);
	cJSON_Delete(follow->switched);
	follow->left_out = follow->together = follow->switched = NULL;
	follow->captures = NULL;
	follow->refused = NULL;
	follow->count = follow->refused_count = 0;
}
