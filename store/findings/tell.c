/* tell.c - see tell.h. The sentences are for somebody who wants to know what to do. */
#include "tell.h"
#include "telling.h"

#include "store/breakdown/thread_times.h"
#include "cores.h"
#include "figures.h"
#include "recompile.h"
#include "shapes.h"
#include "sql.h"
#include "workers.h"

/* Workers that wait for a processor for this part of their time are too many for it. Workers that run for a smaller
 * part of it than WORKERS_IDLE wait for data. */
#define WORKERS_STARVE 0.25
#define WORKERS_IDLE 0.35

static void tell_workers(const struct telling *telling)
{
	struct finding *finding = telling->finding;
	const struct workers workers = workers_load(telling->texts->db);
	ADVICE("Try more workers (num_workers), a larger prefetch_factor, cheaper transforms, or data that is nearer.");
	if (!workers.count)
		return;
	ADD(finding->evidence, " %d worker%s ran %.0f %% of the time, and waited %.0f %% for a processor.",
	    workers.count, workers.count == 1 ? "" : "s", workers.ran * 100, workers.waited * 100);
	if (workers.waited >= WORKERS_STARVE)
		ADVICE("More workers would wait for a processor, too: give the job more processors (limits of its container, Slurm's --cpus-per-task), make "
		       "transforms cheaper, or use fewer threads in each process (OMP_NUM_THREADS).");
	else if (workers.ran < WORKERS_IDLE)
		ADVICE("The workers mostly wait for their data: bring it nearer (a local disk, a cache, larger files that are read in order), or have more of "
		       "them wait at once (num_workers, prefetch_factor).");
}

/* If the thread sleeps for less than half of its time in the loader, it does not wait for workers there: it takes
 * what they have ready. */
static bool receives(const struct telling *telling, int64_t input)
{
	const struct breakdown *breakdown = telling->breakdown;
	struct thread_times times;
	int64_t slept = -1;
	if (thread_times_load(telling->texts->db, breakdown->step_thread, &times))
		slept = thread_times_slept(&times, breakdown->steps[telling->findings->first].start,
					   breakdown->steps[telling->findings->last - 1].end);
	thread_times_free(&times);
	return slept >= 0 && slept < input / 2;
}

static void tell_input(const struct telling *telling)
{
	struct finding *finding = telling->finding;
	const struct texts *texts = telling->texts;
	char a[DURATION_BYTES], b[DURATION_BYTES];
	const char *of = findings_of(telling->findings);
	int64_t steps = (int64_t)telling->findings->judged;
	int64_t all = figures_host_row(telling->breakdown, telling->findings, telling->claims, HOST_INPUT);
	int64_t outside =
		figures_matrix(telling->breakdown, telling->findings, telling->claims, PHASE_INPUT, DOING_OUTSIDE);
	int64_t operators = all > outside ? all - outside : 0;
	bool single = texts->single_loader && !texts->workers_loader;
	bool ready = texts->workers_loader && receives(telling, all);
	WHAT("%s for input", finding->device >= 0 ? "The device waits" : "The step's thread waits");
	if (single)
		EVIDENCE(
			"The step's thread loads the batches itself: %s%s in the DataLoader, %s of that in operators and calls.",
			mean(a, all, steps), of, mean(b, operators, steps));
	else if (texts->workers_loader)
		EVIDENCE("The step's thread is in the DataLoader for %s%s: %s.", mean(a, all, steps), of,
			 ready ? "it takes what the workers have ready, and hardly waits for them"
			       : "its workers do not keep up");
	else
		EVIDENCE("The step's thread gets its input for %s%s, %s of that in operators and calls.",
			 mean(a, all, steps), of, mean(b, operators, steps));
	if (telling->claims->input_after_wait * 2 > telling->claims->input)
		ADD(finding->evidence,
		    " %.0f %% of it comes after a wait for the device, without which some of it would hide behind the device's work.",
		    figures_percent(telling->claims->input_after_wait, telling->claims->input));
	if (single)
		ADVICE("Try DataLoader(num_workers=2) or more, with persistent_workers=True%s.",
		       finding->device >= 0 ? " and pin_memory=True" : "");
	else if (texts->workers_loader)
		tell_workers(telling);
	if (ready)
		ADVICE("More workers do not help: the time is what a batch costs the thread that receives it. Try larger batches, fewer tensors in each, or "
		       "no workers where batches are made quickly.");
}

/* Tells whether a CUDA graph, or a compiler, would suit the step. */
static void tell_launch(const struct telling *telling)
{
	const struct claims *claims = telling->claims;
	char text[DURATION_BYTES], count[COUNTED_BYTES];
	int64_t middle = figures_median_operation(telling->breakdown, telling->findings, claims);
	const char *per = findings_per(telling->findings);
	double operations = figures_mean_operations(telling->findings, claims);
	int64_t waits = figures_host_row(telling->breakdown, telling->findings, claims, HOST_SYNC) +
			figures_host_row(telling->breakdown, telling->findings, claims, HOST_ALLOC);
	int64_t ns, all;
	enum idle_row row = figures_late(claims, FINDING_LAUNCH, &ns, &all);
	bool same = figures_same_operations(telling->findings, claims);
	WHAT("Launch-bound: the device waits for the host to launch");
	EVIDENCE("%s%s, half of them take %s or less. For %.0f %% of that time the breakdown's row is \"%s\".%s",
		 counted(count, operations, "operation", "operations"), per, duration(text, middle),
		 figures_percent(ns, all), breakdown_idle_rows[row].title,
		 telling->capture->graph_launches ? " CUDA graphs are in use already." : "");
	if (telling->findings->judged == 1)
		ADVICE("Try torch.compile, which fuses operators, or larger batches. CUDA graphs apply where every step launches the same operations and "
		       "nothing waits in between, which one %s alone does not tell.",
		       telling->findings->window ? "window" : "step");
	else if (same && waits == 0)
		ADVICE("Every step launches the same number of operations and nothing waits in between: CUDA graphs apply "
		       "(torch.compile(mode=\"reduce-overhead\"), torch.cuda.make_graphed_callables). Or larger batches.");
	else if (same)
		ADVICE("Try torch.compile, which fuses operators. CUDA graphs apply once the step neither waits for the device nor "
		       "allocates: `profd show CAPTURE --by breakdown` has these rows of the host. Or larger batches.");
	else
		ADVICE("Try torch.compile, which fuses operators, or larger batches. Steps launch different numbers of operations: CUDA "
		       "graphs apply to the parts that stay the same.");
}

static void tell_optimizer(const struct telling *telling)
{
	WHAT(telling->finding->device >= 0 ? "The device waits for the optimizer, which updates tensor by tensor"
					   : "The optimizer updates tensor by tensor");
	char count[COUNTED_BYTES];
	EVIDENCE("%s%s that update one tensor each.",
		 counted(count, figures_mean_per_tensor(telling->findings, telling->claims), "operator", "operators"),
		 findings_per(telling->findings));
	if (telling->finding->device < 0)
		ADVICE("Use one operator for all tensors: fused=True, which Adam, AdamW, SGD and Adagrad have on the CPU from torch 2.4 on. "
		       "(foreach=True takes them one by one there.)");
}

/* Did the step's thread work in the stretches of a finding, or did it wait? A sentence. Empty: that was not recorded,
 * or not exactly enough, or mostly another thread was late. */
static const char *how_it_ran(const struct telling *telling, int64_t whole, char *to, size_t bytes)
{
	const struct claims *claims = telling->claims;
	uint32_t step_thread = telling->capture->breakdown.step_thread;
	struct thread_times times;
	struct thread_use use = {0};
	int64_t all = 0;
	*to = '\0';
	if (thread_times_load(telling->texts->db, step_thread, &times)) {
		for (size_t i = 0; i < claims->named_count; i++) {
			const struct finding_interval *interval = &claims->named[i].interval;
			if (claims->named[i].kind == telling->finding->kind && interval->thread == step_thread &&
			    thread_times_add(&times, interval->start, interval->end, &use))
				all += interval->end - interval->start;
		}
	}
	thread_times_free(&times);
	if (all > whole / 2 && use.error <= all / 4)
		snprintf(
			to, bytes,
			" The step's thread ran %.0f %% of that time, slept %.0f %%, and waited %.0f %% for a processor.",
			figures_percent(use.ran, all), figures_percent(all - use.ran - use.waited, all),
			figures_percent(use.waited, all));
	return to;
}

/* The steps of a total: " in 5 steps", " in the window". */
static const char *in_steps(const struct findings *findings, char *to, size_t bytes)
{
	if (findings->window)
		snprintf(to, bytes, "%s", findings_per(findings));
	else
		snprintf(to, bytes, " in %zu step%s", findings->judged, findings->judged == 1 ? "" : "s");
	return to;
}

static bool is_blocking_copy(const struct breakdown_operation *operation)
{
	return operation->kind == OPERATION_PAGEABLE;
}

static bool is_other_copy(const struct breakdown_operation *operation)
{
	return operation->row == DEVICE_COPIES && operation->kind != OPERATION_PAGEABLE;
}

static bool is_collective(const struct breakdown_operation *operation)
{
	return operation->row == DEVICE_COMMUNICATION;
}

static bool has_few_blocks(const struct breakdown_operation *operation)
{
	return operation->kind == OPERATION_FEW_BLOCKS;
}

static bool is_without_tensor_cores(const struct breakdown_operation *operation)
{
	return operation->kind == OPERATION_NO_TENSOR_CORES;
}

static struct figure of_operations(const struct telling *telling, figures_wanted *wanted, double *ret_mean)
{
	struct figure all,
		most = figures_operations(telling->breakdown, telling->findings, telling->claims, wanted, &all);
	*ret_mean = figures_mean(telling->findings, all.count);
	return most;
}

/* Where stacks are recorded the line is named. An imported trace cannot be recorded again with them. */
static void advise_stacks(const struct telling *telling)
{
	struct finding *finding = telling->finding;
	sqlite3_stmt *row = NULL;
	if (sqlite3_prepare_v2(
		    telling->texts->db,
		    "SELECT 1 FROM meta WHERE key = 'agent_version' AND value <> '' AND NOT EXISTS (SELECT 1 FROM "
		    "collectors WHERE collector = 'python' AND ran)",
		    -1, &row, NULL) == SQLITE_OK &&
	    sqlite3_step(row) == SQLITE_ROW)
		ADD(finding->advice, " With trigger --stacks the line is named.");
	sqlite3_finalize(row);
}

/* For captures in which no device worked. The row "outside of operators" is time in no phase, but most of this
 * finding's time may lie in phases. */
static void tell_outside(const struct telling *telling)
{
	struct finding *finding = telling->finding;
	const struct findings *findings = telling->findings;
	int64_t steps = (int64_t)findings->judged,
		waited = figures_waited(findings, telling->claims, telling->processor->waited);
	int64_t alone =
		figures_matrix(telling->breakdown, findings, telling->claims, PHASE_NONE, DOING_OUTSIDE) / steps;
	WHAT("%s", waited >= 0 && waited / steps < finding->ns / 20
			   ? "The step's thread is in Python, outside of operators"
			   : "The step's thread is outside of operators: Python, or waiting for a processor");
	if (alone < finding->ns / 2)
		ADD(finding->evidence,
		    " Most of it lies within forward, backward and the like, between their operators.");
	advise_stacks(telling);
}

static void tell_stall(const struct telling *telling)
{
	struct finding *finding = telling->finding;
	char text[DURATION_BYTES];
	int64_t all;
	struct figure most = figures_biggest(telling->claims, FINDING_STALL, &all);
	texts_get(telling->texts, most.id, finding->subject, sizeof finding->subject);
	const char *subject =
		*finding->subject ? finding->subject : "no operator: Python, or waiting for something else";
	if (finding->device >= 0)
		WHAT("The device waits while the host is busy elsewhere, a millisecond or more at a time");
	else
		WHAT("The step's thread is outside of operators, a millisecond or more at a time");
	char ran[128], steps[48];
	EVIDENCE("%.0f %% of it in %s; %llu time%s%s, the longest %s.%s", figures_percent(most.ns, all), subject,
		 (unsigned long long)finding->interval_total, finding->interval_total == 1 ? "" : "s",
		 in_steps(telling->findings, steps, sizeof steps),
		 duration(text, figures_longest(telling->claims, FINDING_STALL)),
		 how_it_ran(telling, all, ran, sizeof ran));
	advise_stacks(telling);
}

static const char *stretches(const struct telling *telling, char text[COUNTED_BYTES])
{
	return counted(text, figures_mean(telling->findings, telling->finding->interval_total), "stretch", "stretches");
}

static void tell_wait(const struct telling *telling)
{
	struct finding *finding = telling->finding;
	char call[FINDING_NAME_BYTES];
	int64_t all;
	struct figure most = figures_biggest(telling->claims, finding->kind, &all);
	texts_get(telling->texts, most.id, finding->subject, sizeof finding->subject);
	texts_get(telling->texts, most.call, call, sizeof call);
	if (finding->kind == FINDING_SYNC)
		WHAT("A wait for the device leaves it idle: %s",
		     *finding->subject ? finding->subject : "a synchronisation");
	else if (finding->kind == FINDING_ALLOC)
		WHAT("The device waits while memory is taken or given back: %s", *call ? call : "an allocation");
	else
		WHAT("The device waits for copies that block%s%s", *finding->subject ? ": " : "", finding->subject);
	bool within = *call && strcmp(call, finding->subject) != 0;
	const char *there = within ? ", there most in " : "", *inner = within ? call : "",
		   *per = findings_per(telling->findings);
	char count[COUNTED_BYTES];
	double copies;
	if (finding->kind == FINDING_COPY) {
		of_operations(telling, is_blocking_copy, &copies);
		EVIDENCE("%s%s; %.0f %% of the time of their calls in %s%s%s.",
			 counted(count, copies, "such copy", "such copies"), per, figures_percent(most.ns, all),
			 *finding->subject ? finding->subject : "no operator", there, inner);
	} else if (finding->kind == FINDING_SYNC) {
		EVIDENCE("%.0f %% of it after %s%s%s; %s%s.", figures_percent(most.ns, all),
			 *finding->subject ? finding->subject : "a call", there, inner,
			 counted(count, figures_mean(telling->findings, figures_waits(telling->claims)), "wait",
				 "waits"),
			 per);
	} else {
		EVIDENCE("%.0f %% of it in %s%s%s; %s%s.", figures_percent(most.ns, all),
			 *finding->subject ? finding->subject : "several calls together", there, inner,
			 stretches(telling, count), per);
	}
	if (finding->kind != FINDING_SYNC)
		return;
	if (strstr(finding->subject, "item") || strstr(finding->subject, "local_scalar"))
		ADVICE("A number is read from the device (.item(), float(), a condition on a tensor). Keep it on the device with detach(), and read it "
		       "every so many steps.");
	else if (strstr(finding->subject, "nonzero") || strstr(finding->subject, "index"))
		ADVICE("Its result's size is known only when the device is done. Use torch.where, masks, or fixed sizes.");
	else if (strstr(finding->subject, "aten::to") || strstr(finding->subject, "copy"))
		ADVICE("Copy from pinned memory and do not wait (pin_memory=True, non_blocking=True); read results back every so many steps.");
}

static void tell_small(const struct telling *telling)
{
	char text[DURATION_BYTES], count[COUNTED_BYTES], gaps[COUNTED_BYTES];
	const char *per = findings_per(telling->findings);
	WHAT("Many small kernels: the device is between them");
	EVIDENCE(
		"%s%s, half of them take %s or less; %s%s of 10 us or less between operations that were queued in time.",
		counted(count, figures_mean_operations(telling->findings, telling->claims), "operation", "operations"),
		per, duration(text, figures_median_operation(telling->breakdown, telling->findings, telling->claims)),
		counted(gaps, figures_mean(telling->findings, telling->finding->interval_total), "gap", "gaps"), per);
}

static void tell_kernels(const struct telling *telling)
{
	struct finding *finding = telling->finding;
	bool few = finding->kind == FINDING_FEW_BLOCKS;
	const char *per = findings_per(telling->findings);
	double all;
	struct figure most = of_operations(telling, few ? has_few_blocks : is_without_tensor_cores, &all);
	char kernels[COUNTED_BYTES], times[COUNTED_BYTES];
	counted(kernels, all, "kernel", "kernels");
	counted(times, figures_mean(telling->findings, most.count), "time", "times");
	texts_get_kernel(telling->texts, most.id, finding->subject, sizeof finding->subject);
	if (few) {
		WHAT("Kernels fill a part of the device");
		EVIDENCE(
			"%s%s %s blocks for %.0f %% of its multiprocessors by their time; time counts while nothing else runs. "
			"Most of it in %.120s, %s%s.",
			kernels, per, all == 1 ? "has" : "have", telling->claims->few_fill * 100, finding->subject,
			times, per);
	} else {
		WHAT("Matrix products run without tensor cores");
		char inputs[FINDING_NAME_BYTES], whole[FINDING_NAME_BYTES];
		texts_get(telling->texts, most.id, whole, sizeof whole);
		shapes_of_kernel(telling->texts->db, most.id, telling->findings, inputs, sizeof inputs);
		EVIDENCE(
			"%s%s. Most of their time in %.120s, %s%s%s. \"At most\" is the peak of the hardware; precision changes.",
			kernels, per, finding->subject, times, per, inputs);
		ADVICE("%s", cores_advice(cores_major(telling->texts->db, finding->device), whole));
	}
}

static void tell_collectives(const struct telling *telling)
{
	struct finding *finding = telling->finding;
	double all;
	struct figure most = of_operations(telling, is_collective, &all);
	texts_get_kernel(telling->texts, most.id, finding->subject, sizeof finding->subject);
	char count[COUNTED_BYTES];
	EVIDENCE("%s%s, most of their time in %.120s; the wait for the other ranks is in it.",
		 counted(count, all, "collective", "collectives"), findings_per(telling->findings), finding->subject);
}

/* Names the call that has most of the time, if it is known. */
static void tell_calls(const struct telling *telling)
{
	struct finding *finding = telling->finding;
	char text[DURATION_BYTES], call[FINDING_NAME_BYTES], count[COUNTED_BYTES];
	int64_t all;
	struct figure most = figures_biggest(telling->claims, finding->kind, &all);
	texts_get(telling->texts, most.id, finding->subject, sizeof finding->subject);
	texts_get(telling->texts, most.call, call, sizeof call);
	if (!*finding->subject)
		return;
	bool within = *call && strcmp(call, finding->subject) != 0;
	EVIDENCE("%.0f %% of it in %s%s%s; %s%s, the longest %s.", figures_percent(most.ns, all), finding->subject,
		 within ? ", there most in " : "", within ? call : "", stretches(telling, count),
		 findings_per(telling->findings), duration(text, figures_longest(telling->claims, finding->kind)));
}

static void tell_others(const struct telling *telling)
{
	struct finding *finding = telling->finding;
	const char *per = findings_per(telling->findings);
	char text[DURATION_BYTES], count[COUNTED_BYTES];
	double copies;
	EVIDENCE("%s%s, the longest %s.", stretches(telling, count), per,
		 duration(text, figures_longest(telling->claims, finding->kind)));
	switch (finding->kind) {
	case FINDING_COPIES:
		of_operations(telling, is_other_copy, &copies);
		EVIDENCE("%s%s; time counts while nothing is computed.",
			 counted(count, copies, "copy or memset", "copies and memsets"), per);
		WHAT("Copies run while nothing is computed");
		break;
	case FINDING_COMMUNICATION:
		if (finding->device >= 0)
			tell_collectives(telling);
		WHAT("Communication runs while nothing is computed");
		break;
	case FINDING_COMPILE:
		WHAT("%s code is compiled or loaded", finding->device >= 0 ? "The device waits while" : "In the step");
		break;
	case FINDING_SETUP:
		WHAT("The device waits for calls that set something up, a millisecond or more each");
		break;
	case FINDING_CAPTURE:
		WHAT("The profiler itself takes time of the step");
		break;
	case FINDING_OUTSIDE:
		tell_outside(telling);
		break;
	default:
		WHAT("%s", finding_facts(finding->kind)->title);
		break;
	}
	if (finding->kind == FINDING_COMPILE || finding->kind == FINDING_SETUP)
		tell_calls(telling);
}

void findings_tell(const struct texts *texts, const struct breakdown_capture *capture, const struct findings *findings,
		   const struct claims *claims, const struct processor *processor, int64_t grown,
		   struct finding *finding)
{
	const struct telling telling = {.texts = texts,
					.capture = capture,
					.breakdown = &capture->breakdown,
					.findings = findings,
					.claims = claims,
					.processor = processor,
					.grown = grown,
					.finding = finding};
	snprintf(finding->advice, sizeof finding->advice, "%s", finding_facts(finding->kind)->advice);
	switch (finding->kind) {
	case FINDING_INPUT:
		tell_input(&telling);
		break;
	case FINDING_LAUNCH:
		tell_launch(&telling);
		break;
	case FINDING_OPTIMIZER:
		tell_optimizer(&telling);
		break;
	case FINDING_STALL:
		tell_stall(&telling);
		break;
	case FINDING_SYNC:
	case FINDING_COPY:
	case FINDING_ALLOC:
		tell_wait(&telling);
		break;
	case FINDING_SMALL:
		tell_small(&telling);
		break;
	case FINDING_NO_TENSOR_CORES:
	case FINDING_FEW_BLOCKS:
		tell_kernels(&telling);
		break;
	case FINDING_GARBAGE:
		tell_garbage(&telling);
		break;
	case FINDING_RECOMPILE:
		recompile_tell(texts, capture, findings, finding);
		break;
	case FINDING_PROCESSOR:
		processor_tell(processor, findings, finding);
		break;
	case FINDING_UNLIKE:
		tell_unlike(&telling);
		break;
	default:
		tell_others(&telling);
		break;
	}
	if (finding->device >= 0 && capture->breakdown.device_count > 1)
		ADD(finding->evidence, " \"The device\" is device %lld, the busiest of %zu.",
		    (long long)finding->device, capture->breakdown.device_count);
	findings_tell_sql(texts, findings, finding);
}

void findings_tell_line(struct findings *findings)
{
	const struct finding *first = &findings->items[0];
	if (!findings->count)
		snprintf(findings->verdict, sizeof findings->verdict, "%s",
			 *findings->abstains ? findings->abstains : "Nothing stands out.");
	else
		snprintf(findings->verdict, sizeof findings->verdict, "%.*s, %.0f %%%s",
			 (int)sizeof findings->verdict - 40, first->what, first->share * 100, findings_of(findings));
}
