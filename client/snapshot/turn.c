/* turn.c - see turn.h. */
#include "turn.h"

#include "client/link/collect.h"
#include "client/reader/capture.h"
#include "client/report/summary.h"
#include "client/ui/clock.h"
#include "client/ui/json.h"
#include "client/ui/text.h"
#include "series.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* At most this many earlier snapshots are compared with, the newest ones. */
#define HISTORY_MOST SERIES_EARLIER
/* An answer of `ps` is used for this long. */
#define FRESH_NS 500000000ll

static void skip(struct member *member, const char *word, const char *why)
{
	member->outcome = OUTCOME_SKIPPED;
	snprintf(member->word, sizeof member->word, "%s", word);
	snprintf(member->why, sizeof member->why, "%s", why);
}

/* The daemon's processes as they are now, or were half a second ago. NULL with *failure filled. */
static const cJSON *processes_now(struct turn *turn, unsigned daemon, struct failure *failure)
{
	struct collect collect = {"process", NULL};
	cJSON *request;

	*failure = (struct failure){0};
	if (turn->processes[daemon] && clock_now() - turn->fresh[daemon] < FRESH_NS)
		return turn->processes[daemon];
	cJSON_Delete(turn->processes[daemon]);
	turn->processes[daemon] = NULL;
	request = request_new("ps");
	collect.array = need(cJSON_CreateArray());
	if (daemon_query(&turn->daemons->list[daemon], request, collect_row, &collect, failure)) {
		turn->processes[daemon] = collect.array;
		turn->fresh[daemon] = clock_now();
	} else {
		cJSON_Delete(collect.array);
	}
	cJSON_Delete(request);
	return turn->processes[daemon];
}

/* Takes over the newest state of a member's process, and skips it where a recording makes no sense now. */
static void look(struct turn *turn, struct member *member, const cJSON *processes)
{
	const char *state, *capture, *source;
	char ago_text[TEXT_FIGURE_BYTES], step_text[TEXT_FIGURE_BYTES], text[160];
	const cJSON *process, *now = NULL;
	int64_t step, ago, wanted = turn->warmup + turn->steps;
	struct timespec clock;

	if (member->pid <= 0) {
		skip(member, "outside", "lives outside of this pid namespace (a container's): ask from there");
		return;
	}
	cJSON_ArrayForEach(process, processes)
	{
		if (json_number(process, "pid", 0) == (double)member->pid)
			now = process;
	}
	if (!now) {
		skip(member, error_word(ERROR_GONE), "has exited");
		return;
	}
	cJSON_Delete(member->process);
	member->process = need(cJSON_Duplicate(now, true));
	state = json_text(now, "state");
	capture = json_text(now, "capture_id");
	source = json_text(now, "step_source");
	step = (int64_t)json_number(now, "step_ns", 0);
	member->idle_step = step;
	clock_gettime(CLOCK_REALTIME, &clock);
	if (state && strcmp(state, "idle") != 0) {
		snprintf(text, sizeof text, "is being recorded%s%.40s%s", capture ? " (capture " : "",
			 capture ? capture : "", capture ? ")" : "");
		skip(member, error_word(ERROR_BUSY), text);
	} else if (!source || strcmp(source, "none") == 0) {
		skip(member, error_word(ERROR_NO_STEPS), "has shown no steps yet");
	} else if (snapshot_is_stalled(json_text(now, "last_step_at"), step,
				       (int64_t)clock.tv_sec * 1000000000 + clock.tv_nsec, &ago)) {
		snprintf(text, sizeof text, "has not stepped for %s", text_duration(ago_text, ago));
		skip(member, "stalled", text);
	} else if (turn->timeout && step > 0 && step > turn->timeout / (wanted + 1)) {
		snprintf(text, sizeof text, "steps in %s, of which %lld do not fit into --timeout",
			 text_duration(step_text, step), (long long)wanted);
		skip(member, "slow", text);
	}
}

/* Fills what the member's step time is compared with. */
static void recall(struct turn *turn, const struct unit *unit, struct member *member)
{
	struct daemons only = {.list = {turn->daemons->list[unit->daemon]}, .count = 1};
	struct who who = who_of(member->process, false);
	double values[HISTORY_MOST];
	size_t n = 0;

	if (member->by_pid || series_needs_pid(turn->history, &who))
		who = who_of(member->process, true);
	for (int i = cJSON_GetArraySize(turn->history); i > 0 && n < HISTORY_MOST; i--) {
		const cJSON *capture = cJSON_GetArrayItem(turn->history, i - 1);
		const char *path = json_text(capture, "daemon"), *id = json_text(capture, "capture_id");
		struct who one = who_of(capture, true);
		struct failure failure;
		cJSON *summary;
		int64_t step;

		if (!id || !path || strcmp(path, only.list[0].path) != 0 || !who_same(&who, &one))
			continue;
		summary = capture_summary(&only, id, &failure);
		step = series_idle_step(capture, summary);
		cJSON_Delete(summary);
		if (step > 0)
			values[n++] = (double)step;
	}
	member->history = (int64_t)n;
	if (n >= SNAPSHOT_HISTORY) {
		member->median = series_median(values, n);
		member->beyond =
			series_is_beyond(cJSON_GetObjectItemCaseSensitive(member->process, "step_times_ns"), values, n);
	}
}

/* --if-slower-than: skips the unit if all its members can be compared and none is slower. */
static void compare(struct turn *turn, struct unit *unit)
{
	char now[TEXT_FIGURE_BYTES], usual[TEXT_FIGURE_BYTES], text[200];

	for (size_t i = 0; i < unit->count; i++) {
		struct member *member = &unit->members[i];

		if (member->outcome == OUTCOME_WAITING)
			recall(turn, unit, member);
	}
	for (size_t i = 0; i < unit->count; i++) {
		const struct member *member = &unit->members[i];

		if (member->outcome == OUTCOME_WAITING &&
		    (member->median <= 0 || member->idle_step <= 0 ||
		     ((double)member->idle_step > turn->factor * member->median && member->beyond)))
			return;
	}
	for (size_t i = 0; i < unit->count; i++) {
		struct member *member = &unit->members[i];

		if (member->outcome != OUTCOME_WAITING)
			continue;
		snprintf(text, sizeof text, "steps in %s, not slower than %gx the median of its %lld snapshots, %s%s",
			 text_duration(now, member->idle_step), turn->factor, (long long)member->history,
			 text_duration(usual, (int64_t)member->median),
			 (double)member->idle_step > turn->factor * member->median ? ", beyond the spread of its steps"
										   : "");
		skip(member, "not_slower", text);
	}
}

bool turn_judge(struct turn *turn, struct unit *unit)
{
	struct failure failure;
	const cJSON *processes = processes_now(turn, unit->daemon, &failure);

	for (size_t i = 0; i < unit->count; i++) {
		struct member *member = &unit->members[i];

		if (processes) {
			look(turn, member, processes);
			continue;
		}
		member->outcome = OUTCOME_FAILED;
		member->code = error_exit_code(failure.error);
		snprintf(member->word, sizeof member->word, "%s", failure.word);
		snprintf(member->why, sizeof member->why, "%s", failure.message);
	}
	if (turn->factor > 0)
		compare(turn, unit);
	for (size_t i = 0; i < unit->count; i++)
		if (unit->members[i].outcome == OUTCOME_WAITING)
			return true;
	return false;
}

void turn_deinit(struct turn *turn)
{
	for (unsigned i = 0; i < DAEMONS_MAX; i++)
		cJSON_Delete(turn->processes[i]);
	cJSON_Delete(turn->history);
}
