/* follow.c - see watch.h. One thread; SIGINT is blocked but while it waits in ppoll. */
#include "follow.h"

#include "client/ui/output.h"
#include "presence.h"
#include "client/ui/progress.h"
#include "client/ui/text.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* How long captures that were cancelled may take to come in. */
#define CANCEL_WAIT_NS 10000000000ll
#define REDRAW_NS 100000000ll
/* A daemon that has ended: how long another is waited for (the system's may be in an upgrade; one of a user's own seldom comes
 * back by itself), how often it is looked for, and how often that one is asked. */
#define RETURN_NS 15000000000ll
#define RETURN_USER_NS 3000000000ll
#define LOOK_NS 50000000ll
/* A hundred restarts are followed; a daemon that ends at every request is not asked for ever. */
#define TRIES 500
#define ASK_NS 250000000ll
/* Captures of one trigger: beyond what a daemon arms. */
#define TRIGGER_CAPTURES 100000
/* Rows that are kept of them: of each that it is armed, and that it is finished. */
#define KEPT_CAPTURES (size_t)(2 * TRIGGER_CAPTURES)

static volatile sig_atomic_t interrupts;

static void interrupted(int signal)
{
	(void)signal;
	interrupts++;
}

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static struct watched *find(struct watch *watch, unsigned daemon, const char *id)
{
	for (size_t i = 0; i < watch->count; i++)
		if (watch->captures[i].daemon == daemon && strcmp(watch->captures[i].id, id) == 0)
			return &watch->captures[i];
	return NULL;
}

/* The capture of a row, known or new: those of later cycles come without a target row. */
static struct watched *capture_of(struct watch *watch, unsigned daemon, const cJSON *row)
{
	const char *id = reply_text(row, "capture_id");
	struct watched *watched;

	if (!id)
		return NULL;
	watched = find(watch, daemon, id);
	if (watched)
		return watched;
	watch->captures = need(reallocarray(watch->captures, watch->count + 1, sizeof *watch->captures));
	watched = &watch->captures[watch->count++];
	watch->kept_rows++;
	*watched = (struct watched){.daemon = daemon, .window = watch->window};
	snprintf(watched->id, sizeof watched->id, "%s", id);
	watched->pid = (int64_t)reply_number(row, "pid", 0);
	watched->rank = (int64_t)reply_number(row, "rank", -1);
	return watched;
}

static void refuse(struct watch *watch, const struct failure *failure)
{
	/* A daemon may tell it in the row and once more in its last packet. */
	for (size_t i = 0; i < watch->refused_count; i++)
		if (watch->refused[i].pid == failure->pid && failure->pid && watch->refused[i].error == failure->error)
			return;
	watch->refused = need(reallocarray(watch->refused, watch->refused_count + 1, sizeof *watch->refused));
	watch->refused[watch->refused_count++] = *failure;
	watch->kept_rows++;
}

static void describe(const struct watched *watched, char *text, size_t bytes)
{
	char pid[TEXT_FIGURE_BYTES];
	int n = snprintf(text, bytes, "capture %s (%s", watched->id, text_pid(pid, watched->pid));

	if (watched->rank >= 0 && (size_t)n < bytes)
		n += snprintf(text + n, bytes - (size_t)n, ", rank %lld", (long long)watched->rank);
	if ((size_t)n < bytes)
		snprintf(text + n, bytes - (size_t)n, ")");
}

static void state(const struct watched *watched, char *text, size_t bytes)
{
	char elapsed[TEXT_FIGURE_BYTES];

	if (watched->captured)
		snprintf(text, bytes, "%s", watched->status);
	else if (strcmp(watched->status, "armed") == 0)
		snprintf(text, bytes, watched->window ? "armed" : "armed, waiting for the next step");
	else if (strcmp(watched->status, "warmup") == 0)
		snprintf(text, bytes, "warm-up");
	else if (strcmp(watched->status, "recording") == 0 && watched->of > 0 && !watched->window)
		snprintf(text, bytes, "step %lld of %lld", (long long)watched->step, (long long)watched->of);
	else if (strcmp(watched->status, "recording") == 0)
		snprintf(text, bytes, "recording, %s", text_duration(elapsed, now_ns() - watched->since));
	else
		snprintf(text, bytes, "%s", watched->status);
}

static void set_status(struct watched *watched, const char *status)
{
	char who[160], text[64];
	bool changed = strcmp(watched->status, status) != 0;

	snprintf(watched->status, sizeof watched->status, "%s", status);
	if (!changed || progress_live())
		return;
	describe(watched, who, sizeof who);
	if (strcmp(status, "recording") == 0 && watched->window)
		snprintf(text, sizeof text, "recording");
	else if (strcmp(status, "recording") == 0 && watched->of > 0)
		snprintf(text, sizeof text, "recording %lld step%s", (long long)watched->of,
			 watched->of == 1 ? "" : "s");
	else
		state(watched, text, sizeof text);
	note("%s: %s", who, text);
}

/* One line for all captures: the one that is furthest behind tells how long it still takes. */
static void draw(const struct watch *watch)
{
	const struct watched *behind = NULL;
	size_t finished = 0;
	char who[160], how[96], text[320];

	if (!progress_live() || !watch->follow)
		return;
	for (size_t i = 0; i < watch->count; i++) {
		const struct watched *one = &watch->captures[i];

		if (one->captured)
			finished++;
		else if (!behind || one->step < behind->step)
			behind = one;
	}
	if (!watch->count) {
		snprintf(text, sizeof text, "waiting for %s", watch->wanted);
	} else if (!behind) {
		snprintf(text, sizeof text, "finished");
	} else {
		describe(behind, who, sizeof who);
		state(behind, how, sizeof how);
		if (watch->count == 1)
			snprintf(text, sizeof text, "%s: %s", who, how);
		else
			snprintf(text, sizeof text, "%zu of %zu captures finished; furthest behind: %s: %s", finished,
				 watch->count, who, how);
	}
	if (watch->cancelled)
		snprintf(how, sizeof how, "cancelling; Ctrl-C again leaves at once. ");
	else
		how[0] = 0;
	memmove(text + strlen(how), text, sizeof text - strlen(how));
	memcpy(text, how, strlen(how));
	text[sizeof text - 1] = 0;
	progress_draw(text);
}

static void add_members(cJSON **array, const cJSON *row, const char *const *keys, size_t count)
{
	cJSON *object = need(cJSON_CreateObject());

	if (!*array)
		*array = need(cJSON_CreateArray());
	for (size_t i = 0; i < count; i++) {
		const cJSON *item = cJSON_GetObjectItemCaseSensitive(row, keys[i]);

		cJSON_AddItemToObject(object, keys[i], need(item ? cJSON_Duplicate(item, true) : cJSON_CreateNull()));
	}
	cJSON_AddItemToArray(*array, object);
}

static void take_target(struct watch *watch, unsigned daemon, const cJSON *row)
{
	const char *outcome = reply_text(row, "outcome");
	const char *message = reply_text(row, "message");
	struct failure failure;
	char detail[32];

	if (outcome && strcmp(outcome, "armed") == 0) {
		struct watched *watched = capture_of(watch, daemon, row);
		const char *id = reply_text(row, "trigger_id");

		if (watched)
			set_status(watched, "armed");
		if (id)
			snprintf(watch->trigger_id[daemon], WATCH_ID_BYTES, "%s", id);
		return;
	}
	if (outcome && strcmp(outcome, "left_out") == 0) {
		static const char *const keys[] = {"pid", "name", "message"};

		watch->kept_rows++;
		add_members(&watch->left_out, row, keys, sizeof keys / sizeof *keys);
		return;
	}
	snprintf(detail, sizeof detail, "%.0f", reply_number(row, "pid", 0));
	failure_set(&failure, error_from_word(outcome ? outcome : ""), detail);
	snprintf(failure.word, sizeof failure.word, "%s", outcome ? outcome : "failed");
	if (message)
		snprintf(failure.message, sizeof failure.message, "%s", message);
	failure.pid = (int64_t)reply_number(row, "pid", 0);
	presence_explain(&failure);
	refuse(watch, &failure);
}

static void take_together(struct watch *watch, const cJSON *row)
{
	static const char *const keys[] = {"job", "processes", "at_step", "message"};
	const char *message = reply_text(row, "message");

	watch->kept_rows++;
	add_members(&watch->together, row, keys, sizeof keys / sizeof *keys);
	if (message)
		note("%s", message);
}

static void take_progress(struct watch *watch, unsigned daemon, const cJSON *row)
{
	struct watched *watched = capture_of(watch, daemon, row);
	const char *status = reply_text(row, "status");

	if (!watched || watched->captured)
		return;
	watched->step = (int64_t)reply_number(row, "step", 0);
	watched->of = (int64_t)reply_number(row, "of", 0);
	watched->warmup_step = (int64_t)reply_number(row, "warmup_step", 0);
	watched->since = now_ns() - (int64_t)reply_number(row, "elapsed", 0);
	if (status)
		set_status(watched, status);
}

static void take_captured(struct watch *watch, unsigned daemon, const cJSON *row)
{
	struct watched *watched = capture_of(watch, daemon, row);
	const char *status = reply_text(row, "status");

	if (!watched || watched->captured)
		return;
	watched->captured = need(cJSON_Duplicate(row, true));
	watch->kept_rows++;
	cJSON_DeleteItemFromObjectCaseSensitive(watched->captured, "row");
	watched->pid = (int64_t)reply_number(row, "pid", (double)watched->pid);
	watched->rank = (int64_t)reply_number(row, "rank", (double)watched->rank);
	set_status(watched, status ? status : "failed");
}

static void ask_cancel(struct watch *watch, unsigned daemon, const char *key, const char *id)
{
	struct daemon other = watch->daemons->list[daemon];
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

static void cancel_daemon(struct watch *watch, unsigned daemon)
{
	if (watch->trigger_id[daemon][0]) {
		ask_cancel(watch, daemon, "trigger_id", watch->trigger_id[daemon]);
		return;
	}
	/* Not accepted yet: what is armed already is ended one by one, the rest when the trigger has a name. */
	for (size_t i = 0; i < watch->count; i++)
		if (watch->captures[i].daemon == daemon && !watch->captures[i].captured)
			ask_cancel(watch, daemon, "capture_id", watch->captures[i].id);
}

/* --- with the next daemon --- */

static void lose(struct watch *watch, unsigned daemon, const struct failure *failure)
{
	struct watch_link *link = &watch->links[daemon];

	if (link->state == LINK_FOLLOWS)
		note("the daemon at %s has ended; waiting for it to come back", watch->daemons->list[daemon].path);
	link->failure = *failure;
	link->state = LINK_LOST;
	if (link->tries++ >= TRIES)
		link->at = 0;
	else
		link->at = now_ns() + (watch->daemons->list[daemon].user ? RETURN_USER_NS : RETURN_NS);
}

static void give_up(struct watch *watch, unsigned daemon)
{
	watch->open[daemon] = false;
	watch->cut_off = true;
	failure_merge(&watch->failure, &watch->links[daemon].failure);
}

static bool any_known(const struct watch *watch, unsigned daemon)
{
	for (size_t i = 0; i < watch->count; i++)
		if (watch->captures[i].daemon == daemon)
			return true;
	return false;
}

/* The next daemon is there: nothing was armed, so all is asked for again, or what was armed is asked after. */
static void rejoin(struct watch *watch, unsigned daemon)
{
	struct watch_link *link = &watch->links[daemon];
	struct failure failure;

	if (any_known(watch, daemon) && !watch->trigger_id[daemon][0]) {
		/* A daemon of an older release has not told. */
		give_up(watch, daemon);
		return;
	}
	if (!any_known(watch, daemon)) {
		if (!daemon_send(&watch->daemons->list[daemon], link->request, &failure)) {
			lose(watch, daemon, &failure);
			return;
		}
		link->state = LINK_FOLLOWS;
		return;
	}
	if (!watch->follow) {
		watch->open[daemon] = false;
		return;
	}
	if (watch->cancelled)
		cancel_daemon(watch, daemon);
	link->state = LINK_RESTS;
	link->at = now_ns();
}

static void ask(struct watch *watch, unsigned daemon)
{
	struct watch_link *link = &watch->links[daemon];
	cJSON *request = request_new("captures");
	struct failure failure;

	json_add_text(request, "trigger_id", watch->trigger_id[daemon]);
	cJSON_AddNumberToObject(request, "limit", TRIGGER_CAPTURES);
	link->unfinished = false;
	link->state = LINK_ASKED;
	if (!daemon_send(&watch->daemons->list[daemon], request, &failure))
		lose(watch, daemon, &failure);
	cJSON_Delete(request);
}

/* What is due. Returns when it is next (CLOCK_MONOTONIC ns). */
static int64_t pursue(struct watch *watch, unsigned daemon)
{
	struct watch_link *link = &watch->links[daemon];

	if (link->state == LINK_LOST && now_ns() >= link->at)
		give_up(watch, daemon);
	else if (link->state == LINK_LOST && daemon_reconnect(&watch->daemons->list[daemon]))
		rejoin(watch, daemon);
	else if (link->state == LINK_RESTS && now_ns() >= link->at)
		ask(watch, daemon);
	if (watch->open[daemon] && link->state == LINK_LOST)
		return now_ns() + LOOK_NS;
	return watch->open[daemon] && link->state == LINK_RESTS ? link->at : INT64_MAX;
}

static void take_asked(struct watch *watch, unsigned daemon, const cJSON *row)
{
	struct watched *watched = capture_of(watch, daemon, row);
	const char *status = reply_text(row, "status");
	bool finished = status && (strcmp(status, "complete") == 0 || strcmp(status, "incomplete") == 0 ||
				   strcmp(status, "failed") == 0);

	if (!watched || !status || watched->captured)
		return;
	if (finished) {
		take_captured(watch, daemon, row);
		return;
	}
	watch->links[daemon].unfinished = true;
	watched->step = (int64_t)reply_number(row, "steps_recorded", 0);
	watched->of = (int64_t)reply_number(row, "steps_wanted", 0);
	/* Until its agent has come back, that is all a daemon can say. */
	if (strcmp(status, "finishing") != 0)
		set_status(watched, status);
}

static void asked(struct watch *watch, unsigned daemon, const cJSON *end)
{
	struct watch_link *link = &watch->links[daemon];

	if (link->unfinished || reply_number(end, "running", 0) > 0) {
		link->state = LINK_RESTS;
		link->at = now_ns() + ASK_NS;
		return;
	}
	watch->open[daemon] = false;
	/* One that the next daemon knows nothing of is lost. */
	for (size_t i = 0; i < watch->count; i++)
		if (watch->captures[i].daemon == daemon && !watch->captures[i].captured) {
			give_up(watch, daemon);
			return;
		}
}

static void take_packet(struct watch *watch, unsigned daemon, const cJSON *packet)
{
	struct failure failure;
	const char *id;

	if (reply_is_row(packet, "capture")) {
		take_asked(watch, daemon, packet);
	} else if (reply_is_row(packet, "target")) {
		take_target(watch, daemon, packet);
	} else if (reply_is_row(packet, "together")) {
		take_together(watch, packet);
	} else if (reply_is_row(packet, "accepted")) {
		id = reply_text(packet, "trigger_id");
		snprintf(watch->trigger_id[daemon], WATCH_ID_BYTES, "%s", id ? id : "");
		if (watch->cancelled)
			cancel_daemon(watch, daemon);
	} else if (reply_is_row(packet, "progress")) {
		take_progress(watch, daemon, packet);
	} else if (reply_is_row(packet, "captured")) {
		take_captured(watch, daemon, packet);
	} else if (reply_error(packet, &failure)) {
		if (failure.pid)
			refuse(watch, &failure);
		else
			failure_merge(&watch->failure, &failure);
		watch->open[daemon] = false;
	}
	if (!reply_is_end(packet))
		return;
	if (watch->links[daemon].state == LINK_ASKED && watch->open[daemon])
		asked(watch, daemon, packet);
	else
		watch->open[daemon] = false;
}

static void receive(struct watch *watch, unsigned daemon)
{
	cJSON *packet;
	struct failure failure;
	size_t before = watch->kept_rows;
	int received = daemon_receive(&watch->daemons->list[daemon], 0, &packet, NULL, &failure);

	if (received == RECEIVE_CLOSED) {
		lose(watch, daemon, &failure);
	} else if (received == RECEIVE_BROKEN) {
		watch->open[daemon] = false;
		watch->cut_off = true;
		failure_merge(&watch->failure, &failure);
	} else if (received == RECEIVE_PACKET) {
		take_packet(watch, daemon, packet);
		/* What is told again and again (progress) is not kept. */
		if (watch->kept_rows > before &&
		    !reply_keep(&watch->kept[daemon], KEPT_CAPTURES, packet, &watch->daemons->list[daemon], &failure)) {
			watch->open[daemon] = false;
			watch->cut_off = true;
			failure_merge(&watch->failure, &failure);
		}
		cJSON_Delete(packet);
	}
}

static bool any_open(const struct watch *watch)
{
	for (unsigned i = 0; i < watch->daemons->count; i++)
		if (watch->open[i])
			return true;
	return false;
}

static bool is_heard(const struct watch *watch, unsigned daemon)
{
	return watch->open[daemon] &&
	       (watch->links[daemon].state == LINK_FOLLOWS || watch->links[daemon].state == LINK_ASKED);
}

static void follow(struct watch *watch, const sigset_t *unblocked)
{
	int64_t until = now_ns() + watch->give_up_ns;
	int handled = 0;

	while (any_open(watch)) {
		struct pollfd pollers[DAEMONS_MAX];
		int64_t left = until - now_ns(), due = INT64_MAX;
		struct timespec wait;

		if (left <= 0) {
			watch->timed_out = true;
			return;
		}
		for (unsigned i = 0; i < watch->daemons->count; i++) {
			int64_t next = watch->open[i] ? pursue(watch, i) : INT64_MAX;

			due = next < due ? next : due;
		}
		if (!any_open(watch))
			return;
		if (due != INT64_MAX && due - now_ns() < left)
			left = due > now_ns() ? due - now_ns() : 0;
		wait = (struct timespec){.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
		draw(watch);
		/* The daemon tells changes; that time passes is seen here. */
		if (watch->window && progress_live() && left > REDRAW_NS)
			wait = (struct timespec){.tv_nsec = REDRAW_NS};
		for (unsigned i = 0; i < watch->daemons->count; i++)
			pollers[i] = (struct pollfd){.fd = is_heard(watch, i) ? watch->daemons->list[i].fd : -1,
						     .events = POLLIN};
		if (ppoll(pollers, watch->daemons->count, &wait, unblocked) > 0)
			for (unsigned i = 0; i < watch->daemons->count; i++)
				if (pollers[i].revents)
					receive(watch, i);
		if (interrupts > handled) {
			handled = interrupts;
			if (watch->cancelled)
				return;
			watch->cancelled = true;
			until = now_ns() + CANCEL_WAIT_NS;
			if (!progress_live())
				note("cancelling; Ctrl-C again leaves at once");
			for (unsigned i = 0; i < watch->daemons->count; i++)
				if (watch->open[i])
					cancel_daemon(watch, i);
		}
	}
}

void watch_run(struct watch *watch, cJSON *const request[DAEMONS_MAX])
{
	struct sigaction action = {.sa_handler = interrupted}, before;
	sigset_t interrupt, unblocked;
	struct failure failure;

	sigemptyset(&action.sa_mask);
	sigemptyset(&interrupt);
	sigaddset(&interrupt, SIGINT);
	sigprocmask(SIG_BLOCK, &interrupt, &unblocked);
	sigaction(SIGINT, NULL, &before);
	/* In the background of a shell without job control Ctrl-C is for somebody else. */
	if (before.sa_handler != SIG_IGN)
		sigaction(SIGINT, &action, NULL);
	for (unsigned i = 0; i < watch->daemons->count; i++) {
		if (!request[i])
			continue;
		watch->links[i] = (struct watch_link){.request = request[i]};
		if (daemon_send(&watch->daemons->list[i], request[i], &failure))
			watch->open[i] = true;
		else
			failure_merge(&watch->failure, &failure);
	}
	follow(watch, &unblocked);
	progress_clear();
	sigaction(SIGINT, &before, NULL);
	sigprocmask(SIG_SETMASK, &unblocked, NULL);
}

void watch_deinit(struct watch *watch)
{
	for (size_t i = 0; i < watch->count; i++)
		cJSON_Delete(watch->captures[i].captured);
	free(watch->captures);
	free(watch->refused);
	cJSON_Delete(watch->left_out);
	cJSON_Delete(watch->together);
	watch->left_out = watch->together = NULL;
	watch->captures = NULL;
	watch->refused = NULL;
	watch->count = watch->refused_count = 0;
}
