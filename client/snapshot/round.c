/* round.c - see round.h. */
#include "round.h"

#include "client/link/connection.h"
#include "client/reader/capture.h"
#include "client/report/summary.h"
#include "client/ui/clock.h"
#include "client/ui/interrupt.h"
#include "client/ui/json.h"
#include "client/ui/progress.h"
#include "client/ui/text.h"
#include "keep.h"
#include "outcome.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define REDRAW_NS 1000000000ll
/* How long recordings that were cancelled may take to come in. */
#define CANCEL_NS 10000000000ll

static void measure(struct round *round, const struct unit *unit, struct member *member)
{
	struct daemons only = {.list = {round->turn.daemons->list[unit->daemon]}, .count = 1};
	struct failure failure;
	cJSON *summary;

	if (!member->captured)
		return;
	member->step = (int64_t)json_number(member->captured, "step_ns", 0);
	summary = capture_summary(&only, member->id, &failure);
	if (summary)
		member->busy = summary_busy_percent(summary, NULL);
	cJSON_Delete(summary);
}

static void finish(struct round *round, struct unit *unit)
{
	for (size_t i = 0; i < unit->count; i++)
		measure(round, unit, &unit->members[i]);
	if (round->keep && !round->cancelled)
		keep_newest(&round->turn.daemons->list[unit->daemon], unit, round->options.label, round->keep);
	unit->done = true;
	round->done++;
	round->finished(unit, round->context);
}

/* Begins a unit. If all its members are skipped, the unit is finished at once. */
static void begin(struct round *round, struct unit *unit)
{
	if (turn_judge(&round->turn, unit))
		flight_begin(&round->flights[round->flying++], &round->turn.daemons->list[unit->daemon], unit,
			     &round->options);
	else
		finish(round, unit);
}

static void land(struct round *round, size_t i, int code, const char *why)
{
	struct unit *unit = round->flights[i].unit;

	flight_end(&round->flights[i], code, why);
	memmove(&round->flights[i], &round->flights[i + 1], (round->flying - i - 1) * sizeof *round->flights);
	round->flying--;
	finish(round, unit);
}

static void land_what_ended(struct round *round)
{
	for (size_t i = round->flying; i-- > 0;) {
		if (!round->flights[i].open)
			land(round, i, EXIT_FAILED, "the daemon said nothing of it");
		else if (clock_now() > round->flights[i].give_up)
			land(round, i, EXIT_TIMED_OUT,
			     "the daemon has not finished in time; `profd captures` says what becomes of it");
	}
}

static void draw(const struct round *round)
{
	char text[320], wait[TEXT_FIGURE_BYTES];

	if (!progress_live())
		return;
	if (round->flying) {
		char *who = snapshot_describe(round->flights[0].unit, (int64_t)geteuid());

		snprintf(text, sizeof text, "%ssnapshot %zu of %zu: %.200s",
			 round->cancelled ? "cancelling; Ctrl-C again leaves at once. " : "", round->done + 1,
			 round->count, who);
		free(who);
	} else if (round->next < round->count) {
		int64_t left = round->began + round->units[round->next].at - clock_now();

		snprintf(text, sizeof text, "snapshot %zu of %zu begins in %s", round->next + 1, round->count,
			 text_duration(wait, left > 0 ? left / 1000000000 * 1000000000 : 0));
	} else {
		return;
	}
	progress_draw(text);
}

/* Waits until something comes, the next unit is due, or a signal. */
static void wait_for_news(struct round *round, const sigset_t *waiting)
{
	struct pollfd pollers[ROUND_PARALLEL];
	int64_t now = clock_now(), until = INT64_MAX, left;
	struct timespec wait;

	draw(round);
	for (size_t i = 0; i < round->flying; i++) {
		pollers[i] = (struct pollfd){.fd = round->flights[i].daemon.fd, .events = POLLIN};
		until = round->flights[i].give_up < until ? round->flights[i].give_up : until;
	}
	if (round->next < round->count && round->flying < round->parallel && !round->cancelled &&
	    round->began + round->units[round->next].at < until)
		until = round->began + round->units[round->next].at;
	if (progress_live() && now + REDRAW_NS < until)
		until = now + REDRAW_NS;
	left = until > now ? until - now : 0;
	wait = (struct timespec){.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
	if (ppoll(pollers, round->flying, &wait, waiting) > 0)
		for (size_t i = 0; i < round->flying; i++)
			if (pollers[i].revents)
				flight_receive(&round->flights[i]);
}

static void cancel(struct round *round)
{
	round->cancelled = true;
	if (!progress_live())
		note("cancelling; Ctrl-C again leaves at once");
	for (size_t i = 0; i < round->flying; i++) {
		flight_cancel(&round->flights[i]);
		round->flights[i].give_up = clock_now() + CANCEL_NS;
	}
}

void round_record(struct round *round)
{
	struct interrupt interrupt;

	interrupt_begin(&interrupt);
	round->began = clock_now();
	while (round->flying || (round->next < round->count && !round->cancelled)) {
		while (round->next < round->count && round->flying < round->parallel && !round->cancelled &&
		       clock_now() >= round->began + round->units[round->next].at)
			begin(round, &round->units[round->next++]);
		land_what_ended(round);
		if (round->flying || (round->next < round->count && !round->cancelled &&
				      clock_now() < round->began + round->units[round->next].at))
			wait_for_news(round, &interrupt.waiting);
		land_what_ended(round);
		if (interrupt_count() && !round->cancelled)
			cancel(round);
		if (interrupt_count() > 1)
			break;
	}
	while (round->flying)
		land(round, 0, EXIT_CANCELLED, "left before it was finished");
	progress_clear();
	interrupt_end(&interrupt);
}
