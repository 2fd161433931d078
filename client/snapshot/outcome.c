/* outcome.c - see outcome.h. */
#include "outcome.h"

#include "client/ui/json.h"
#include "client/ui/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *text_of(const cJSON *row, const char *key)
{
	const char *text = json_text(row, key);

	return text ? text : "";
}

enum outcome snapshot_outcome(const struct unit *unit)
{
	static const enum outcome order[] = {OUTCOME_FAILED, OUTCOME_INCOMPLETE, OUTCOME_RECORDED, OUTCOME_SKIPPED};

	for (size_t o = 0; o < sizeof order / sizeof *order; o++)
		for (size_t i = 0; i < unit->count; i++)
			if (unit->members[i].outcome == order[o])
				return order[o];
	return OUTCOME_WAITING;
}

const char *snapshot_outcome_word(enum outcome outcome)
{
	static const char *const words[] = {"waiting", "recorded", "incomplete", "skipped", "failed"};

	return words[outcome];
}

char *snapshot_describe(const struct unit *unit, int64_t uid)
{
	const struct member *first = &unit->members[0];
	const char *job = text_of(first->process, "job");
	char where[96] = "", *text = NULL;
	bool others = (int64_t)json_number(first->process, "uid", -1) != uid;

	if (unit->count > 1)
		snprintf(where, sizeof where, ", %zu %s", unit->count, first->rank >= 0 ? "ranks" : "processes");
	else if (*job && first->rank >= 0)
		snprintf(where, sizeof where, ", rank %lld", (long long)first->rank);
	else if (*job && first->by_pid)
		snprintf(where, sizeof where, ", pid %lld", (long long)first->pid);
	if (!*job && first->pid <= 0) {
		if (asprintf(&text, "%s%s%s", text_of(first->process, "name"), others ? " of " : "",
			     others ? text_of(first->process, "user") : "") < 0)
			need(NULL);
		return text;
	}
	if (*job ? asprintf(&text, "%s%s%s (job %s%s)", text_of(first->process, "name"), others ? " of " : "",
			    others ? text_of(first->process, "user") : "", job, where) < 0
		 : asprintf(&text, "%s%s%s (pid %lld)", text_of(first->process, "name"), others ? " of " : "",
			    others ? text_of(first->process, "user") : "", (long long)first->pid) < 0)
		need(NULL);
	return text;
}

/* A text that grows. */
struct line {
	char *text;
	size_t bytes;
	FILE *file;
};

/* "17", "18 to 25", "18, 20 and 31" of the members with this outcome. */
static void say_captures(struct line *line, const struct unit *unit, enum outcome outcome)
{
	const char *first = NULL, *last = NULL;
	size_t n = 0, said = 0;
	bool row = true;

	for (size_t i = 0; i < unit->count; i++) {
		const char *id = unit->members[i].id;

		if (unit->members[i].outcome != outcome || !*id)
			continue;
		/* Ids of a user's own daemon begin with u. */
		if (last && strtoull(id + (*id == 'u'), NULL, 10) != strtoull(last + (*last == 'u'), NULL, 10) + 1)
			row = false;
		first = first ? first : id;
		last = id;
		n++;
	}
	if (n == 0)
		return;
	fprintf(line->file, ", capture%s ", n > 1 ? "s" : "");
	if (n > 2 && row) {
		fprintf(line->file, "%s to %s", first, last);
		return;
	}
	for (size_t i = 0; i < unit->count; i++)
		if (unit->members[i].outcome == outcome && *unit->members[i].id)
			fprintf(line->file, "%s%s", said++ ? said == n ? " and " : ", " : "", unit->members[i].id);
}

/* Step times do not tell which rank keeps the others waiting: in a job whose ranks wait for each other they are all
 * alike. */
static void say_step(struct line *line, const struct unit *unit)
{
	double *steps = need(calloc(unit->count, sizeof *steps));
	char figure[TEXT_FIGURE_BYTES], other[TEXT_FIGURE_BYTES];
	int64_t least = 0, most = 0;
	size_t n = 0;

	for (size_t i = 0; i < unit->count; i++) {
		int64_t step = unit->members[i].step;

		if (step <= 0)
			continue;
		least = n == 0 || step < least ? step : least;
		most = step > most ? step : most;
		steps[n++] = (double)step;
	}
	if (n) {
		fprintf(line->file, ": step %s", text_duration(figure, (int64_t)series_median(steps, n)));
		if (n > 1)
			fprintf(line->file, " (%s to %s)", text_duration(figure, least), text_duration(other, most));
	} else {
		fputs(": step time not known", line->file);
	}
	free(steps);
}

static void say_busy(struct line *line, const struct unit *unit)
{
	double least = 0, most = -1;

	for (size_t i = 0; i < unit->count; i++) {
		double busy = unit->members[i].busy;

		if (busy < 0)
			continue;
		least = most < 0 || busy < least ? busy : least;
		most = busy > most ? busy : most;
	}
	if (most < 0)
		fputs(", device busy not recorded", line->file);
	else if (most - least < 0.05)
		fprintf(line->file, ", device busy %.1f%%", most);
	else
		fprintf(line->file, ", device busy %.1f%% to %.1f%%", least, most);
}

/* The reasons of the members with this outcome. Each reason stands once, behind the members that it applies to. */
static void say_reasons(struct line *line, const struct unit *unit, enum outcome outcome, bool all)
{
	bool begun = false;

	for (size_t i = 0; i < unit->count; i++) {
		const struct member *member = &unit->members[i];
		size_t n = 0, before = 0;

		for (size_t k = 0; k < unit->count; k++) {
			bool same =
				unit->members[k].outcome == outcome && strcmp(unit->members[k].why, member->why) == 0;

			n += same;
			before += same && k < i;
		}
		if (member->outcome != outcome || before || !*member->why)
			continue;
		fputs(begun ? "; " : "", line->file);
		begun = true;
		if (!(all && n == unit->count) && member->rank >= 0)
			fprintf(line->file, "rank %lld%s ", (long long)member->rank, n > 1 ? " and others" : "");
		else if (!(all && n == unit->count))
			fprintf(line->file, "pid %lld%s ", (long long)member->pid, n > 1 ? " and others" : "");
		fputs(member->why, line->file);
	}
}

static void say_history(struct line *line, const struct unit *unit)
{
	const struct member *most = NULL;

	for (size_t i = 0; i < unit->count; i++) {
		const struct member *member = &unit->members[i];

		if (member->history < 0)
			continue;
		if (member->median <= 0) {
			fprintf(line->file, "; no history to compare with yet: %lld of %d snapshots",
				(long long)member->history, SNAPSHOT_HISTORY);
			return;
		}
		if (!most || (double)member->idle_step / member->median > (double)most->idle_step / most->median)
			most = member;
	}
	if (most && most->idle_step > 0)
		fprintf(line->file, "; %.2fx the median of its %lld snapshots", (double)most->idle_step / most->median,
			(long long)most->history);
}

char *snapshot_line(const struct unit *unit)
{
	enum outcome outcome = snapshot_outcome(unit);
	struct line line = {NULL, 0, NULL};
	size_t recorded = 0, skipped = 0;
	int older = cJSON_GetArraySize(unit->deleted);

	for (size_t i = 0; i < unit->count; i++) {
		recorded += unit->members[i].outcome == OUTCOME_RECORDED;
		skipped += unit->members[i].outcome == OUTCOME_SKIPPED;
	}
	line.file = need(open_memstream(&line.text, &line.bytes));
	fputs(snapshot_outcome_word(outcome), line.file);
	if (outcome != OUTCOME_RECORDED && outcome != OUTCOME_SKIPPED) {
		say_captures(&line, unit, outcome);
		fputs(": ", line.file);
		say_reasons(&line, unit, outcome, true);
		if (recorded)
			fputs("; recorded", line.file);
	}
	if (recorded) {
		say_captures(&line, unit, OUTCOME_RECORDED);
		if (unit->at_step)
			fprintf(line.file, ", from step %lld on", (long long)unit->at_step);
		say_step(&line, unit);
		say_busy(&line, unit);
		say_history(&line, unit);
	}
	if (skipped) {
		fputs(outcome == OUTCOME_SKIPPED ? ": " : "; skipped: ", line.file);
		say_reasons(&line, unit, OUTCOME_SKIPPED, outcome == OUTCOME_SKIPPED);
	}
	if (!unit->at_step && *unit->together)
		fprintf(line.file, "; %s", unit->together);
	if (older)
		fprintf(line.file, "; %d older deleted", older);
	return need(fclose(line.file) ? NULL : line.text);
}
