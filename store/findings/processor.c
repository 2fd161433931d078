/* processor.c - see processor.h. The agent looks at the thread every few ms (thread_times). If that is exact enough
 * for single steps, each step is told by itself; otherwise all steps are told together. */
#include "processor.h"
#include "telling.h"

#include "store/breakdown/thread_times.h"

#include <stdio.h>
#include <stdlib.h>

/* If a smaller part of the steps can be told by themselves, none is. */
#define KNOWN_PART 2
/* If a quota was used up in so large a part of its periods, it is told as the reason. */
#define STOPPED_PART 10

/* A device that is idle for these reasons waits for a host that is late: a thread without a processor makes all of
 * them longer. */
static const enum finding_kind of_the_host[] = {FINDING_INPUT,	   FINDING_LAUNCH,  FINDING_STALL,
						FINDING_SYNC,	   FINDING_ALLOC,   FINDING_SETUP,
						FINDING_OPTIMIZER, FINDING_COMPILE, FINDING_GARBAGE};

static int64_t wall_of(const struct breakdown_step *step)
{
	return step->end - step->start;
}

/* Looks at each step by itself. Returns how many are known. */
static size_t look_at_each(const struct breakdown *breakdown, const struct thread_times *times, size_t first,
			   size_t last, const bool *unlike, struct processor *ret)
{
	size_t known = 0, judged = 0;
	for (size_t i = first; i < last; i++) {
		const struct breakdown_step *step = &breakdown->steps[i];
		struct thread_use use;
		if (!thread_times_between(times, step->start, step->end, &use))
			continue;
		ret->waited[i] = use.waited;
		known++;
		judged += !unlike[i];
		ret->taken += unlike[i] ? 0 : (double)use.involuntary;
	}
	ret->taken /= judged ? (double)judged : 1;
	return known;
}

static void look_at_all(const struct breakdown *breakdown, const struct thread_times *times, size_t first, size_t last,
			struct processor *ret)
{
	int64_t start = breakdown->steps[first].start, end = breakdown->steps[last - 1].end;
	struct thread_use use;
	bool known = thread_times_between(times, start, end, &use);
	for (size_t i = first; i < last; i++)
		ret->waited[i] = known ? (int64_t)((double)use.waited * (double)wall_of(&breakdown->steps[i]) /
						   (double)(end - start))
				       : -1;
	ret->taken = known ? (double)use.involuntary / (double)(last - first) : 0;
	ret->evenly = known;
}

static int64_t meta(sqlite3 *db, const char *key)
{
	sqlite3_stmt *row = NULL;
	int64_t value = 0;
	if (sqlite3_prepare_v2(db, "SELECT value FROM meta WHERE key = ?1", -1, &row, NULL) == SQLITE_OK) {
		sqlite3_bind_text(row, 1, key, -1, SQLITE_STATIC);
		if (sqlite3_step(row) == SQLITE_ROW)
			value = sqlite3_column_int64(row, 0);
	}
	sqlite3_finalize(row);
	/* A file may say anything. */
	return value > 0 && value < INT64_MAX / 1000 ? value : 0;
}

bool processor_load(const struct breakdown_capture *capture, sqlite3 *db, size_t first, size_t last, const bool *unlike,
		    struct processor *ret)
{
	const struct breakdown *breakdown = &capture->breakdown;
	struct thread_times times;
	*ret = (struct processor){.waited = calloc(breakdown->step_count + 1, sizeof *ret->waited)};
	bool ok = thread_times_load(db, breakdown->step_thread, &times) && ret->waited;
	for (size_t i = 0; ok && i < breakdown->step_count; i++)
		ret->waited[i] = -1;
	if (ok && first < last && look_at_each(breakdown, &times, first, last, unlike, ret) * KNOWN_PART < last - first)
		look_at_all(breakdown, &times, first, last, ret);
	thread_times_free(&times);
	ret->machine = meta(db, "processors");
	ret->allowed = meta(db, "processors_allowed");
	ret->limit = meta(db, "processors_limit");
	ret->periods = meta(db, "quota_periods");
	ret->stopped = meta(db, "quota_stopped");
	return ok;
}

void processor_free(struct processor *processor)
{
	free(processor->waited);
	*processor = (struct processor){0};
}

int64_t processor_figure(const struct processor *processor, const struct claims *claims, size_t step)
{
	int64_t waited = processor->waited[step], late = 0;
	if (claims->device_index == SIZE_MAX || waited < 0)
		return waited;
	for (size_t i = 0; i < sizeof of_the_host / sizeof *of_the_host; i++)
		late += claims->steps[step].ns[of_the_host[i]];
	return waited < late ? waited : late;
}

void processor_intervals(const struct processor *processor, const struct breakdown_capture *capture, size_t first,
			 size_t last, struct finding *finding)
{
	const struct breakdown *breakdown = &capture->breakdown;
	finding->interval_count = 0;
	finding->interval_total = 0;
	for (size_t i = first; i < last; i++) {
		size_t at = finding->interval_count;
		if (processor->waited[i] <= 0)
			continue;
		finding->interval_total++;
		/* Steps are kept in order, the one that waited longest first. */
		for (; at > 0 && processor->waited[finding->intervals[at - 1].step - 1] < processor->waited[i]; at--)
			if (at < FINDING_INTERVALS)
				finding->intervals[at] = finding->intervals[at - 1];
		if (at == FINDING_INTERVALS)
			continue;
		finding->intervals[at] = (struct finding_interval){.start = breakdown->steps[i].start,
								   .end = breakdown->steps[i].end,
								   .step = (int64_t)i + 1,
								   .thread = breakdown->step_thread};
		finding->interval_count += finding->interval_count < FINDING_INTERVALS;
	}
}

/* Was the quota used up so often that it is the reason? */
static bool is_stopped(const struct processor *processor)
{
	return processor->limit && processor->periods && processor->stopped * STOPPED_PART >= processor->periods;
}

static void tell_why(const struct processor *processor, char *why, size_t why_bytes, char *advice, size_t advice_bytes)
{
	*why = '\0';
	if (is_stopped(processor)) {
		snprintf(
			why, why_bytes,
			" Its cgroup may use %.3g processors, and used that up and was stopped in %.0f %% of the quota's periods.",
			(double)processor->limit / 1000, 100 * (double)processor->stopped / (double)processor->periods);
		snprintf(
			advice, advice_bytes,
			"Raise the limit of its container or cgroup (Kubernetes: resources.limits.cpu, docker: --cpus, systemd: CPUQuota=), or let fewer "
			"threads compete: OMP_NUM_THREADS (torch.set_num_threads) times ranks and DataLoader workers together should not be more than it allows.");
	} else if (processor->allowed && processor->allowed < processor->machine) {
		snprintf(why, why_bytes, " It may run on %lld of %lld processors.", (long long)processor->allowed,
			 (long long)processor->machine);
		snprintf(
			advice, advice_bytes,
			"Let it run on more processors (Slurm: --cpus-per-task, --cpu-bind; taskset; cpusets of containers), or let fewer threads compete for "
			"those that it has: OMP_NUM_THREADS (torch.set_num_threads), DataLoader workers, other processes that are bound to them.");
	} else if (processor->machine) {
		snprintf(why, why_bytes, " The machine has %lld processors.", (long long)processor->machine);
	}
}

void processor_tell(const struct processor *processor, const struct findings *findings, struct finding *finding)
{
	char why[160], taken[COUNTED_BYTES];
	snprintf(finding->what, sizeof finding->what, "%s",
		 finding->device >= 0 ? "The device waits while the step's thread has no processor to run on"
				      : "The step's thread waits for a processor");
	tell_why(processor, why, sizeof why, finding->advice, sizeof finding->advice);
	snprintf(
		finding->evidence, sizeof finding->evidence,
		"It could have run and had none for %.*f ms%s%s; its processor was taken from it %s%s.%s This time lies within other "
		"rows.",
		finding->ns < 10000000 ? 2 : 0, (double)finding->ns / 1e6, findings_of(findings),
		processor->evenly && findings->last - findings->first > 1 ? " (all steps taken together)" : "",
		counted(taken, processor->taken, "time", "times"), findings_per(findings), why);
}

/* May the thread have waited for a processor in the time of this finding? */
static bool may_hold(const struct finding *finding)
{
	if (finding->device < 0)
		return finding->kind != FINDING_PROCESSOR && finding->kind != FINDING_UNLIKE &&
		       finding->kind != FINDING_CAPTURE;
	for (size_t i = 0; i < sizeof of_the_host / sizeof *of_the_host; i++)
		if (finding->kind == of_the_host[i])
			return true;
	return false;
}

/* Says that so much of the finding lies in other findings, too. `others` names them. */
static void tell_once(struct finding *finding, int64_t ns, const char *others)
{
	char text[DURATION_BYTES];
	ADD(finding->evidence, " Up to %s of it is in %s, too, and can be won once.",
	    duration(text, ns < finding->ns ? ns : finding->ns), others);
}

void processor_tell_shared(struct findings *findings)
{
	size_t at = 0, before = 0;
	int64_t ns = 0;
	char others[48] = "";
	while (at < findings->count && findings->items[at].kind != FINDING_PROCESSOR)
		at++;
	if (at == findings->count)
		return;
	for (size_t i = 0; i < at; i++) {
		if (!may_hold(&findings->items[i]))
			continue;
		ns += findings->items[i].ns;
		ADD(others, "%s%zu", before ? " or " : "finding ", i + 1);
		before++;
	}
	if (before)
		tell_once(&findings->items[at], ns, others);
	snprintf(others, sizeof others, "finding %zu", at + 1);
	for (size_t i = at + 1; i < findings->count; i++)
		if (may_hold(&findings->items[i]))
			tell_once(&findings->items[i], findings->items[at].ns, others);
}
