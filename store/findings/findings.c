/* findings.c - see findings.h: which steps are judged, and what is said about the claims that judge.c finds in them. */
#include "findings.h"
#include "proto/base/array.h"

#include "cores.h"
#include "judge.h"
#include "in_flight.h"
#include "line.h"
#include "recompile.h"
#include "names.h"
#include "steps.h"
#include "tell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* If so much of a step is idle for no reason that records tell, the verdict says so. */
#define UNEXPLAINED_SHARE 0.10

#define FINDING(NAME, word, title, device, host, flags, advice) {word, title, advice, device, host, flags},
static const struct finding_facts facts[FINDING_KINDS] = {
#include "findings.def"
};

const char *findings_per(const struct findings *findings)
{
	return findings->window ? " in the window" : " a step";
}

const char *findings_of(const struct findings *findings)
{
	return findings->window ? " of the window" : " of a step";
}

const struct finding_facts *finding_facts(enum finding_kind kind)
{
	return &facts[kind < FINDING_KINDS ? kind : 0];
}

enum finding_kind finding_kind(const char *word)
{
	size_t kind = 0;
	while (kind < FINDING_KINDS && strcmp(facts[kind].word, word) != 0)
		kind++;
	return (enum finding_kind)kind;
}

static void take_intervals(const struct claims *claims, struct finding *finding)
{
	if (finding->kind == FINDING_UNLIKE)
		return;
	finding->interval_count = claims->longest_count[finding->kind];
	for (size_t i = 0; i < finding->interval_count; i++)
		finding->intervals[i] = claims->longest[finding->kind][i].interval;
}

static int by_start(const void *a, const void *b)
{
	const struct finding_interval *x = a, *y = b;
	return ORDER(x->start, y->start);
}

static int64_t unexplained(const struct judge *judge, size_t step, size_t queued)
{
	return queued ? judge->claims.steps[step].queued : judge->claims.steps[step].unknown;
}

/* A verdict is not whole if idle time has no known reason. */
static void abstain(struct judge *judge)
{
	struct findings *findings = judge->findings;
	struct finding figure = {0};
	for (size_t queued = 0; queued < 2; queued++) {
		size_t count = judge_gather(judge, unexplained, queued);
		if (!count)
			continue;
		judge_spread(judge, count, &figure);
		if (figure.share < UNEXPLAINED_SHARE || *findings->abstains)
			continue;
		if (judge->capture->doubt[0] && !queued)
			snprintf(findings->abstains, sizeof findings->abstains,
				 "Why device %lld was idle for %.0f %%%s is not known: %s.",
				 (long long)findings->device, figure.share * 100, findings_of(findings),
				 judge->capture->doubt);
		else if (queued)
			snprintf(
				findings->abstains, sizeof findings->abstains,
				"Device %lld was idle for %.0f %%%s with work queued. It waited for another stream, an "
				"event, a host function or another process; the records do not tell which.",
				(long long)findings->device, figure.share * 100, findings_of(findings));
		else
			snprintf(findings->abstains, sizeof findings->abstains,
				 "Why device %lld was idle for %.0f %%%s is not known: %s.",
				 (long long)findings->device, figure.share * 100, findings_of(findings),
				 judge->breakdown->has_operators
					 ? "calls that launched its work are missing"
					 : "operators were not recorded, so that nobody can say what the host did");
	}
}

static bool give_verdict(struct judge *judge, const struct texts *texts)
{
	struct findings *findings = judge->findings;
	if (!claims_name(judge->capture, &judge->claims))
		return false;
	judge_find(judge);
	findings->count = judge->candidate_count;
	for (size_t i = 0; i < findings->count; i++) {
		struct finding *finding = &findings->items[i];
		*finding = judge->candidates[i];
		if (finding->kind == FINDING_RECOMPILE)
			recompile_intervals(judge->capture, findings->first, findings->last, finding);
		else if (finding->kind == FINDING_PROCESSOR)
			processor_intervals(&judge->processor, judge->capture, findings->first, findings->last,
					    finding);
		else
			take_intervals(&judge->claims, finding);
		int64_t grown = 0;
		if (finding->kind == FINDING_UNLIKE)
			judge_grown_row(judge, (size_t)finding->step - 1, SIZE_MAX, &grown);
		findings_tell(texts, judge->capture, findings, &judge->claims, &judge->processor, grown, finding);
		qsort(finding->intervals, finding->interval_count, sizeof *finding->intervals, by_start);
	}
	processor_tell_shared(findings);
	abstain(judge);
	return true;
}

/* False: no memory. */
static bool judge_steps(struct judge *judge, const struct texts *texts)
{
	struct findings *findings = judge->findings;
	const struct breakdown *breakdown = judge->breakdown;
	size_t device = claims_device(breakdown, findings->first, findings->last);
	findings->device = device == SIZE_MAX ? -1 : breakdown->devices[device].device;
	if (device == SIZE_MAX && !breakdown->has_operators) {
		snprintf(findings->abstains, sizeof findings->abstains,
			 "Neither operators nor work of a device were recorded: nobody can say where the time goes.");
		return true;
	}
	if (device != SIZE_MAX && !steps_balanced(breakdown, device, &findings->first, &findings->last))
		return false;
	if (findings->first == findings->last) {
		snprintf(
			findings->abstains, sizeof findings->abstains,
			"The work that is queued for device %lld grows or shrinks by more than a tenth of a step in every step, so that idle "
			"time appears in other steps than its cause. Record more steps.",
			(long long)findings->device);
		return true;
	}
	if (!steps_unlike(breakdown, findings->first, findings->last, judge->unlike, &judge->unlike_count))
		return false;
	judge_set_steps(judge);
	if (!findings->judged)
		return true;
	judge->major = cores_major(texts->db, findings->device);
	const struct claims_wanted wanted = {
		.first = findings->first,
		.last = findings->last,
		.unlike = judge->unlike,
		.per_tensor = texts->per_tensor,
		.per_tensor_count = texts_gain_by_one_update(texts, device != SIZE_MAX) ? texts->per_tensor_count : 0};
	return claims_make(judge->capture, &wanted, &judge->claims) &&
	       processor_load(judge->capture, texts->db, findings->first, findings->last, judge->unlike,
			      &judge->processor) &&
	       give_verdict(judge, texts);
}

static bool make(const struct breakdown_capture *capture, sqlite3 *db, const struct breakdown_watch *watch,
		 size_t first, size_t last, struct findings *ret, int *ret_error)
{
	size_t steps = capture->breakdown.step_count;
	struct judge judge = {.capture = capture, .breakdown = &capture->breakdown, .findings = ret};
	struct texts texts = {0};
	*ret = (struct findings){.first = first,
				 .last = last < steps ? last : steps,
				 .recorded = steps,
				 .window = capture->window,
				 .device = -1};
	*ret_error = 0;
	if (ret->first >= ret->last) {
		ret->first = ret->last;
		snprintf(ret->abstains, sizeof ret->abstains, "No step was recorded.");
		findings_tell_line(ret);
		return true;
	}
	judge.unlike = calloc(steps + 1, sizeof *judge.unlike);
	judge.values = calloc(steps + 1, sizeof *judge.values);
	judge.candidates = calloc(FINDING_KINDS + 1, sizeof *judge.candidates);
	judge.recompiled = recompile_times(capture);
	bool read = texts_load(&texts, db, watch, ret_error);
	bool ok = read && judge.unlike && judge.recompiled && judge.values && judge.candidates &&
		  judge_steps(&judge, &texts);
	if (ok) {
		findings_line(db, capture->breakdown.step_thread, ret);
		findings_in_flight(db, ret);
		findings_tell_line(ret);
	} else if (read) {
		*ret_error = SQLITE_NOMEM;
	}
	texts_free(&texts);
	claims_free(&judge.claims);
	processor_free(&judge.processor);
	free(judge.unlike);
	free(judge.recompiled);
	free(judge.values);
	free(judge.candidates);
	return ok;
}

bool findings_make(const struct breakdown_capture *capture, sqlite3 *db, const struct breakdown_watch *watch,
		   struct findings *ret, int *ret_error)
{
	return make(capture, db, watch, 0, capture->breakdown.step_count, ret, ret_error);
}

bool findings_make_step(const struct breakdown_capture *capture, sqlite3 *db, const struct breakdown_watch *watch,
			size_t step, struct findings *ret, int *ret_error)
{
	return make(capture, db, watch, step, step + 1, ret, ret_error);
}
