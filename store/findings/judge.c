/* judge.c - see judge.h */
#include "judge.h"

#include "cores.h"
#include "recompile.h"
#include "proto/base/array.h"

#include <stdio.h>
#include <stdlib.h>

/* A single function that was compiled again may not be compiled again any more. */
#define RECOMPILES_LEAST 2

static int64_t wall_of(const struct breakdown_step *step)
{
	return step->end - step->start;
}

static bool is_judged(const struct judge *judge, size_t step)
{
	return !judge->unlike[step] && wall_of(&judge->breakdown->steps[step]) > 0;
}

static int by_ns(const void *a, const void *b)
{
	const struct judge_value *x = a, *y = b;
	return ORDER(x->ns, y->ns);
}

static int by_share(const void *a, const void *b)
{
	const struct judge_value *x = a, *y = b;
	return ORDER(x->share, y->share);
}

void judge_spread(const struct judge *judge, size_t count, struct finding *ret)
{
	struct judge_value *values = judge->values;
	size_t low = (count - 1) / 2, high = count / 2;
	double ns = 0, share = 0;
	for (size_t i = 0; i < count; i++) {
		ns += (double)values[i].ns / (double)count;
		share += values[i].share / (double)count;
	}
	qsort(values, count, sizeof *values, by_ns);
	ret->ns = judge->mean ? (int64_t)ns : values[low].ns + (values[high].ns - values[low].ns) / 2;
	ret->least_ns = values[0].ns;
	ret->most_ns = values[count - 1].ns;
	qsort(values, count, sizeof *values, by_share);
	ret->share = judge->mean ? share : (values[low].share + values[high].share) / 2;
	ret->least = values[0].share;
	ret->most = values[count - 1].share;
}

size_t judge_gather(const struct judge *judge, judge_figure *figure, size_t what)
{
	size_t count = 0;
	for (size_t i = judge->findings->first; i < judge->findings->last; i++) {
		if (!is_judged(judge, i))
			continue;
		int64_t ns = figure(judge, i, what);
		judge->values[count++] =
			(struct judge_value){ns, (double)ns / (double)wall_of(&judge->breakdown->steps[i])};
	}
	return count;
}

static int64_t wall_figure(const struct judge *judge, size_t step, size_t what)
{
	(void)what;
	return wall_of(&judge->breakdown->steps[step]);
}

static int64_t claimed(const struct judge *judge, size_t step, size_t kind)
{
	return judge->claims.steps[step].ns[kind];
}

/* The time that this finding alone could win back. */
static void set_win(const struct judge *judge, struct finding *finding)
{
	double part = 1;
	if (finding->kind == FINDING_FEW_BLOCKS)
		part = 1 - judge->claims.few_fill;
	if (finding->kind == FINDING_NO_TENSOR_CORES)
		part = cores_win(judge->major);
	if (finding->kind == FINDING_CAPTURE)
		part = 0;
	finding->win = finding->share * part;
	finding->win_ns = (int64_t)((double)finding->ns * part);
}

/* The mean over all judged steps together. */
static void spread_over_all(const struct judge *judge, size_t count, struct finding *ret)
{
	double ns = 0, all = 0;
	for (size_t i = judge->findings->first; i < judge->findings->last; i++) {
		if (!is_judged(judge, i))
			continue;
		ns += (double)claimed(judge, i, ret->kind);
		all += (double)wall_of(&judge->breakdown->steps[i]);
	}
	ret->ns = (int64_t)(ns / (double)count);
	ret->share = all > 0 ? ns / all : 0;
}

static void look_at(struct judge *judge, enum finding_kind kind)
{
	struct finding *finding = &judge->candidates[judge->candidate_count];
	bool host = judge->claims.device_index == SIZE_MAX;
	double least = host ? finding_facts(kind)->host : finding_facts(kind)->device;
	size_t count = judge_gather(judge, claimed, kind);
	if (!count || least <= 0)
		return;
	*finding = (struct finding){.kind = kind, .device = judge->claims.device};
	judge_spread(judge, count, finding);
	if (finding_facts(kind)->flags & FINDING_NOW_AND_THEN)
		spread_over_all(judge, count, finding);
	set_win(judge, finding);
	/* A kernel that fills a part of the device only loses the part that it leaves empty. */
	double lost = kind == FINDING_FEW_BLOCKS ? finding->win : finding->share;
	if (lost * 100 < least)
		return;
	finding->interval_total = judge->claims.total[kind];
	judge->candidate_count++;
}

/* If all steps compile, the time that `compilation` claims went to compiling again. If only some do, the reason for
 * which these are unlike the others is known. */
static void look_at_recompiles(struct judge *judge)
{
	const struct breakdown *breakdown = judge->breakdown;
	struct findings *findings = judge->findings;
	int64_t ns = 0, all = 0, compile = 0, longest = 0;
	size_t steps = findings->last - findings->first;
	judge->recompiles = false;
	if (recompile_count(judge->capture, findings->first, findings->last) < RECOMPILES_LEAST)
		return;
	for (size_t i = findings->first; i < findings->last; i++) {
		ns += judge->recompiled[i];
		all += wall_of(&breakdown->steps[i]);
		compile += breakdown->steps[i].host[HOST_COMPILE];
		longest = judge->recompiled[i] > longest ? judge->recompiled[i] : longest;
	}
	if (ns <= 0 || ns < compile / 2 || (double)ns * 100 < finding_facts(FINDING_RECOMPILE)->host * (double)all)
		return;
	if (breakdown_left_out(breakdown, findings->first, findings->last) & HOLDS_COMPILATION) {
		struct finding *finding = &judge->candidates[judge->candidate_count++];
		*finding = (struct finding){.kind = FINDING_RECOMPILE, .device = -1};
		finding->ns = finding->win_ns = ns / (int64_t)steps;
		finding->share = finding->win = (double)ns / (double)all;
		finding->most_ns = longest;
		finding->most = finding->share;
		for (size_t i = findings->first; i < findings->last; i++) {
			double share = (double)judge->recompiled[i] / (double)wall_of(&breakdown->steps[i]);
			finding->most = share > finding->most ? share : finding->most;
		}
		judge->recompiles = true;
		return;
	}
	for (size_t i = 0; i < judge->candidate_count; i++)
		if (judge->candidates[i].kind == FINDING_COMPILE)
			judge->candidates[i].kind = FINDING_RECOMPILE;
}

static int64_t row_of(const struct breakdown *breakdown, size_t device, size_t step, size_t row)
{
	return device == SIZE_MAX ? breakdown->steps[step].host[row] : breakdown->devices[device].steps[step].idle[row];
}

const char *judge_grown_row(const struct judge *judge, size_t step, size_t device, int64_t *ret_ns)
{
	const struct breakdown *breakdown = judge->breakdown;
	size_t rows = device == SIZE_MAX ? HOST_ROWS : IDLE_ROWS, found = SIZE_MAX;
	*ret_ns = 0;
	for (size_t row = 0; row < rows; row++) {
		double usual = 0;
		for (size_t i = judge->findings->first; i < judge->findings->last; i++)
			if (is_judged(judge, i))
				usual += (double)row_of(breakdown, device, i, row) / (double)judge->findings->judged;
		int64_t grown = row_of(breakdown, device, step, row) - (int64_t)usual;
		if (grown > *ret_ns) {
			*ret_ns = grown;
			found = row;
		}
	}
	if (found == SIZE_MAX)
		return NULL;
	return device == SIZE_MAX ? breakdown_host_rows[found].title : breakdown_idle_rows[found].title;
}

/* So much of the extra time of steps unlike the others must be in the steps that hold a full collection of Python's
 * garbage. */
#define COLLECTIONS_PART 0.9

/* How many of the steps unlike the others hold a full collection. `garbage`: the worst of these steps grew by garbage
 * collection. 0: neither that is so, nor do the steps that hold one have COLLECTIONS_PART; or another judged step
 * holds one, or may hold one. */
static int64_t with_collections(const struct judge *judge, bool garbage)
{
	const struct breakdown *breakdown = judge->breakdown;
	double all = 0, with = 0;
	int64_t count = 0;
	for (size_t i = judge->findings->first; i < judge->findings->last; i++) {
		int64_t collections = breakdown->steps[i].collections;
		double more = (double)(wall_of(&breakdown->steps[i]) - judge->findings->step_ns);
		if (!judge->unlike[i] && is_judged(judge, i) && collections != 0)
			return 0;
		if (!judge->unlike[i])
			continue;
		all += more;
		with += collections > 0 ? more : 0;
		count += collections > 0;
	}
	return garbage || with >= COLLECTIONS_PART * all ? count : 0;
}

static void look_at_processor(struct judge *judge)
{
	struct findings *findings = judge->findings;
	struct finding *finding = &judge->candidates[judge->candidate_count];
	bool host = judge->claims.device_index == SIZE_MAX;
	size_t count = 0;
	for (size_t i = findings->first; i < findings->last; i++) {
		int64_t ns = is_judged(judge, i) ? processor_figure(&judge->processor, &judge->claims, i) : -1;
		if (ns >= 0)
			judge->values[count++] =
				(struct judge_value){ns, (double)ns / (double)wall_of(&judge->breakdown->steps[i])};
	}
	if (!count)
		return;
	*finding = (struct finding){.kind = FINDING_PROCESSOR, .device = judge->claims.device};
	judge_spread(judge, count, finding);
	set_win(judge, finding);
	judge->candidate_count += finding->share * 100 >= (host ? finding_facts(FINDING_PROCESSOR)->host
								: finding_facts(FINDING_PROCESSOR)->device);
}

static void look_at_unlike(struct judge *judge)
{
	const struct breakdown *breakdown = judge->breakdown;
	struct findings *findings = judge->findings;
	struct finding *finding = &judge->candidates[judge->candidate_count];
	double all = 0, excess = 0;
	size_t worst = findings->first, steps = 0;
	*finding = (struct finding){.kind = FINDING_UNLIKE, .device = -1};
	for (size_t i = findings->first; i < findings->last; i++) {
		double wall = (double)wall_of(&breakdown->steps[i]), more = wall - (double)findings->step_ns;
		all += wall;
		steps++;
		if (!judge->unlike[i] || (judge->recompiles && judge->recompiled[i]))
			continue;
		excess += more;
		finding->interval_total++;
		if (finding->interval_count < FINDING_INTERVALS)
			finding->intervals[finding->interval_count++] =
				(struct finding_interval){.start = breakdown->steps[i].start,
							  .end = breakdown->steps[i].end,
							  .step = (int64_t)i + 1,
							  .thread = breakdown->step_thread};
		if (!judge->unlike[worst] || (judge->recompiles && judge->recompiled[worst]) ||
		    wall_of(&breakdown->steps[i]) > wall_of(&breakdown->steps[worst]))
			worst = i;
	}
	if (!finding->interval_total || excess * 100 < finding_facts(FINDING_UNLIKE)->device * all)
		return;
	finding->step = (int64_t)worst + 1;
	finding->ns = finding->win_ns = (int64_t)(excess / (double)steps);
	finding->share = finding->win = excess / all;
	finding->most_ns = wall_of(&breakdown->steps[worst]) - findings->step_ns;
	finding->most = (double)finding->most_ns / (double)wall_of(&breakdown->steps[worst]);
	int64_t grown;
	const char *row = judge_grown_row(judge, worst, SIZE_MAX, &grown);
	finding->collections = with_collections(judge, row == breakdown_host_rows[HOST_GARBAGE].title);
	snprintf(finding->subject, sizeof finding->subject, "%s", row ? row : "");
	finding->least_ns = 0;
	judge->candidate_count++;
}

static int by_win(const void *a, const void *b)
{
	const struct finding *x = a, *y = b;
	unsigned hint_x = finding_facts(x->kind)->flags & FINDING_HINT,
		 hint_y = finding_facts(y->kind)->flags & FINDING_HINT;
	if (hint_x != hint_y)
		return hint_x ? 1 : -1;
	return ORDER(y->win_ns, x->win_ns) ?: ORDER(x->kind, y->kind);
}

static void look_at_all(struct judge *judge)
{
	judge->candidate_count = 0;
	for (size_t kind = 0; kind < FINDING_KINDS; kind++)
		if (kind != FINDING_UNLIKE && kind != FINDING_RECOMPILE && kind != FINDING_PROCESSOR)
			look_at(judge, (enum finding_kind)kind);
	look_at_recompiles(judge);
	look_at_processor(judge);
	if (judge->unlike_count)
		look_at_unlike(judge);
	qsort(judge->candidates, judge->candidate_count, sizeof *judge->candidates, by_win);
	if (judge->candidate_count > FINDINGS_MOST)
		judge->candidate_count = FINDINGS_MOST;
}

void judge_set_steps(struct judge *judge)
{
	struct findings *findings = judge->findings;
	struct finding figure = {0};
	findings->judged = judge_gather(judge, wall_figure, 0);
	if (!findings->judged)
		return;
	judge_spread(judge, findings->judged, &figure);
	findings->step_ns = figure.ns;
	findings->least_step_ns = figure.least_ns;
	findings->most_step_ns = figure.most_ns;
}

static bool add_up_to_more(const struct judge *judge)
{
	double share = 0;
	int64_t ns = 0;
	for (size_t i = 0; i < judge->candidate_count; i++) {
		if (judge->candidates[i].kind == FINDING_UNLIKE ||
		    finding_facts(judge->candidates[i].kind)->flags & FINDING_WITHIN ||
		    (judge->candidates[i].kind == FINDING_RECOMPILE && judge->recompiles))
			continue;
		share += judge->candidates[i].share;
		ns += judge->candidates[i].ns;
	}
	return share > 1 || ns > judge->findings->step_ns;
}

void judge_find(struct judge *judge)
{
	look_at_all(judge);
	if (add_up_to_more(judge)) {
		judge->mean = true;
		look_at_all(judge);
	}
}
