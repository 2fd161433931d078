/* together.c - see together.h. Thread: the loop's. No locks. */
#include "together.h"
#include "registry_row.h"
#include "daemon/core/json.h"
#include "daemon/core/connection.h"
#include "daemon/core/server.h"
#include "live.h"
#include "capture.h"
#include "family.h"
#include "proto/base/clock.h"
#include "trigger.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How long an ARM may take to reach an agent, in addition to twice what it took lately. The second time, where that was
 * too little, the whole is REACH_AGAIN times as long. */
#define REACH_NS 20000000ull
#define REACH_EACH_NS 200000ull
#define REACH_AGAIN 4
/* Ranks whose counts agree are seen at most so many steps plus so much time apart: one may be a little ahead of its
 * device. */
#define APART_STEPS 3
#define APART_NS 20000000ull
/* How long it may take to switch collectors on. A warm-up lasts at least so long, so that no rank is late. */
#define ENABLE_NS 200000000ull
#define ENABLE_CUDA_NS 500000000ull
/* A larger number from an agent is not a count of steps. */
#define STEPS_MOST (1ull << 52)

static uint64_t steps_of(const struct process *process)
{
	return atomic_load_explicit(&process->page->steps, memory_order_relaxed);
}

/* Steps that will have ended in the process when a message reaches it. */
static uint64_t expected(const struct process *process, uint64_t now, uint64_t reach)
{
	uint64_t last = atomic_load_explicit(&process->page->last, memory_order_relaxed);
	uint64_t steps = steps_of(process), step = registry_step_ns(process);
	if (!step)
		return steps + 1;
	/* A step that takes longer than usual ends at any moment. */
	uint64_t since = last && last < now ? now - last : 0;
	return steps + ((since < step ? since : step) + reach) / step;
}

static uint64_t reach_of(const struct server *server, size_t targets, bool again)
{
	uint64_t reach = 2 * live_of(server)->arm_ns + REACH_NS + targets * REACH_EACH_NS;
	return again ? REACH_AGAIN * reach : reach;
}

/* The first step that can be recorded when `ended` steps have ended. The step under way cannot: it has begun
 * already. */
static uint64_t first_step(const struct trigger_request *request, const struct schedule *schedule, uint64_t ended)
{
	uint64_t multiple = request->at_multiple, step = ended + 2 + schedule_record_at(schedule, 0);
	/* A schedule that was asked for before the process began counts from its first step. */
	if (request->descendants) {
		uint64_t meant = 1 + schedule_record_at(&request->schedule, 0);
		step = ended + 2 + schedule->warmup;
		step = meant > step ? meant : step;
	}
	return multiple ? (step + multiple - 1) / multiple * multiple : step;
}

/* A longer warm-up makes the wait before it shorter, if there is one. */
static struct schedule adapt(const struct trigger_request *request, uint64_t step, bool cuda)
{
	struct schedule schedule = request->schedule;
	uint64_t enable = cuda ? ENABLE_CUDA_NS : ENABLE_NS;
	uint64_t least = step ? enable / step : 0;
	if (least > schedule.warmup) {
		uint64_t more = least - schedule.warmup;
		schedule.wait -= more < schedule.wait ? (uint32_t)more : schedule.wait;
		schedule.warmup = (uint32_t)least;
	}
	if (request->at_multiple) {
		uint64_t over = schedule_period(&schedule) % request->at_multiple;
		schedule.wait += over ? (uint32_t)(request->at_multiple - over) : 0;
	}
	return schedule;
}

static bool is_cuda(const struct trigger *trigger, const struct process *process)
{
	return trigger->request.collectors & 1u << COLLECTOR_CUPTI && process->hello.libraries & LIBRARY_CUDA;
}

/* --- choosing --- */

static void name_rank(const struct process *process, char *text, size_t bytes)
{
	snprintf(text, bytes, "rank %" PRId32 " has ended %" PRIu64, process->who.rank, steps_of(process));
}

/* Fills why_not if no number means the same step in all of them. */
static bool agree(const struct trigger *trigger, struct process *const *ranks, size_t count, struct together *together,
		  uint64_t *ret_step, bool *ret_cuda)
{
	const struct process *least = ranks[0], *most = ranks[0];
	const struct trigger_request *request = &trigger->request;
	uint64_t fastest = UINT64_MAX;
	const char *why = NULL;
	for (size_t i = 0; i < count; i++) {
		uint64_t step = registry_step_ns(ranks[i]);
		enum step_source source = registry_step_source(ranks[i]);
		fastest = step < fastest ? step : fastest;
		*ret_cuda |= is_cuda(trigger, ranks[i]);
		least = steps_of(ranks[i]) < steps_of(least) ? ranks[i] : least;
		most = steps_of(ranks[i]) > steps_of(most) ? ranks[i] : most;
		if (trigger_request_watches(request) || source == STEP_SOURCE_RANGE || source == STEP_SOURCE_OPERATOR)
			why = "such steps are counted only while a recording is armed";
		else if (ranks[i]->hello.minor < 2)
			why = "the agent of one was started with an earlier release";
		else if (!step)
			why = "one has not shown yet how long its steps take";
	}
	*ret_step = fastest;
	if (why) {
		text_copy(together->why_not, sizeof together->why_not, why);
		return false;
	}
	uint64_t apart = steps_of(most) - steps_of(least);
	if (steps_of(most) > STEPS_MOST || apart > APART_STEPS + APART_NS / fastest) {
		char one[64], other[64];
		name_rank(least, one, sizeof one);
		name_rank(most, other, sizeof other);
		snprintf(together->why_not, sizeof together->why_not,
			 "they do not count alike (%s, %s); have they joined at different times?", one, other);
		return false;
	}
	return true;
}

static uint64_t ended_in_any(struct process *const *ranks, size_t count, uint64_t reach)
{
	uint64_t now = clock_monotonic(), ended = 0;
	for (size_t i = 0; i < count; i++) {
		uint64_t one = expected(ranks[i], now, reach);
		ended = one > ended ? one : ended;
	}
	return ended;
}

static struct together *group(struct trigger *trigger, struct process *const *ranks, size_t count)
{
	struct together *together = calloc(1, sizeof *together);
	if (!together)
		return NULL;
	uint64_t step;
	bool cuda = false;
	text_copy(together->job, sizeof together->job, ranks[0]->who.job);
	together->next = trigger->together;
	trigger->together = together;
	if (!agree(trigger, ranks, count, together, &step, &cuda))
		return together;
	uint64_t ended = ended_in_any(ranks, count, reach_of(trigger->server, count, false));
	together->schedule = adapt(&trigger->request, step, cuda);
	together->at_multiple = trigger->request.at_multiple ? trigger->request.at_multiple : 1;
	together->at_step = first_step(&trigger->request, &together->schedule, ended);
	return together;
}

uint64_t together_switch_at(const struct trigger *trigger, struct process *const *ranks, size_t count,
			    uint32_t *ret_pass)
{
	struct together together = {0};
	uint64_t step = 0;
	bool cuda = false;
	if (!agree(trigger, ranks, count, &together, &step, &cuda))
		return 0;
	*ret_pass = (uint32_t)((cuda ? ENABLE_CUDA_NS : ENABLE_NS) / step) + 1;
	return ended_in_any(ranks, count, reach_of(trigger->server, count, false)) + 2 + *ret_pass;
}

void together_plan(struct trigger *trigger, struct process **processes, size_t count, struct together **ret)
{
	const struct trigger_request *request = &trigger->request;
	if (count > 1)
		qsort(processes, count, sizeof *processes, family_by_job);
	for (size_t from = 0, to; from < count; from = to) {
		size_t ranks = 0;
		struct process **members = calloc(count - from, sizeof *members);
		for (to = from; to < count && family_by_job(&processes[from], &processes[to]) == 0; to++) {
			bool may = trigger->admin || trigger->by.uid == processes[to]->who.uid;
			if (members && may && processes[to]->who.rank >= 0 &&
			    (registry_step_source(processes[to]) != STEP_SOURCE_NONE))
				members[ranks++] = processes[to];
		}
		/* A number that the user gives, or a window of time, is the same for all. */
		struct together *together =
			ranks > 1 && !request->at_step && !request->duration ? group(trigger, members, ranks) : NULL;
		for (size_t i = from, m = 0; i < to; i++) {
			bool member = m < ranks && members[m] == processes[i];
			ret[i] = member ? together : NULL;
			m += member;
		}
		free(members);
	}
}

void together_fill(struct trigger *trigger, const struct process *process, const struct together *together,
		   struct message_arm *arm)
{
	const struct trigger_request *request = &trigger->request;
	struct schedule schedule = request->schedule;
	arm->at_step = request->at_step;
	if (together && together->at_step) {
		schedule = together->schedule;
		arm->at_step = together->at_step;
		arm->at_multiple = together->at_multiple;
	} else if (request->at_multiple) {
		uint64_t reach = reach_of(trigger->server, 1, false);
		schedule = adapt(request, registry_step_ns(process), is_cuda(trigger, process));
		arm->at_step = first_step(request, &schedule, expected(process, clock_monotonic(), reach));
		arm->at_multiple = request->at_multiple;
	} else if (request->descendants && !request->at_step) {
		/* If the agent is not ready in time, it takes the next step. */
		arm->at_step = first_step(request, &schedule, steps_of(process));
		arm->at_multiple = 1;
	}
	arm->skip_first = schedule.skip_first;
	arm->wait = schedule.wait;
	arm->warmup = schedule.warmup;
	arm->active = schedule.active;
	arm->repeat = request->duration || request->at_step ? 1 : schedule.repeat;
}

uint64_t together_first(const struct trigger *trigger, const struct process *process, const struct message_arm *arm)
{
	const struct trigger_request *request = &trigger->request;
	if (arm->at_step)
		return arm->at_step;
	if (registry_step_source(process) == STEP_SOURCE_NONE)
		return 0;
	uint64_t reach = reach_of(trigger->server, 1, false);
	return first_step(request, &request->schedule, expected(process, clock_monotonic(), reach));
}

/* --- what came of it --- */

static void tell(const struct trigger *trigger, const struct together *together, const char *text)
{
	if (!trigger->conn)
		return;
	cJSON *row = conn_row_new("together");
	cJSON_AddStringToObject(row, "job", together->job);
	cJSON_AddNumberToObject(row, "processes", together->armed);
	json_add_number(row, "at_step", together->at_step, (double)together->at_step);
	cJSON_AddStringToObject(row, "message", text);
	conn_row(trigger->conn, row);
}

static void name_job(const struct together *together, char *text, size_t bytes)
{
	snprintf(text, bytes, "%u ranks of %s%s", together->armed, *together->job ? "job " : "one job", together->job);
}

/* Chooses a number again, further ahead. Processes that were in time record already, and go on. */
static void choose_again(struct trigger *trigger, struct together *together)
{
	uint64_t now = clock_monotonic(), reach = reach_of(trigger->server, together->armed, true),
		 ended = together->furthest;
	for (struct capture *capture = live_of(trigger->server)->captures; capture; capture = capture->next)
		if (capture->together == together && capture->trigger == trigger && capture->process) {
			uint64_t one = expected(capture->process, now, reach);
			ended = one > ended && one < STEPS_MOST ? one : ended;
		}
	together->missed = together->at_step;
	together->at_step = first_step(&trigger->request, &together->schedule, ended);
	struct message_at_step message = MESSAGE_INIT(AT_STEP, at_step);
	message.at_step = together->at_step;
	for (struct capture *capture = live_of(trigger->server)->captures; capture; capture = capture->next)
		if (capture->together == together && capture->trigger == trigger && capture->process &&
		    capture->state == STATE_RUNNING) {
			message.capture = capture->facts.number;
			conn_send(capture->process->conn, &message, sizeof message, -1);
		}
}

static void say(struct trigger *trigger, struct together *together)
{
	char who[160], text[SENTENCE_BYTES], before[120] = "";
	const char *would = trigger->dry_run ? "would " : "";
	name_job(together, who, sizeof who);
	if (together->missed)
		snprintf(before, sizeof before, " (one had passed step %" PRIu64 ", which was chosen first)",
			 together->missed);
	if (together->at_step)
		snprintf(text, sizeof text, "%s %srecord the same steps, from step %" PRIu64 " on%s", who, would,
			 together->at_step, before);
	else
		snprintf(text, sizeof text, "%s %seach begin with a step of their own: %s", who, would,
			 together->why_not);
	tell(trigger, together, text);
}

void together_answered(struct trigger *trigger)
{
	if (!trigger->together)
		return;
	for (const struct capture *capture = live_of(trigger->server)->captures; capture; capture = capture->next) {
		struct together *together = capture->trigger == trigger ? capture->together : NULL;
		if (!together || together->told || capture->state != STATE_RUNNING)
			continue;
		together->armed++;
		if (capture->armed_step > together->furthest && capture->armed_step < STEPS_MOST)
			together->furthest = capture->armed_step;
	}
	for (struct together *together = trigger->together; together; together = together->next) {
		if (together->told)
			continue;
		together->told = true;
		if (together->armed < 2)
			continue;
		if (together->at_step && together->furthest + 1 + together->schedule.warmup >= together->at_step)
			choose_again(trigger, together);
		say(trigger, together);
	}
}

void together_foretell(struct trigger *trigger)
{
	for (struct together *together = trigger->together; together; together = together->next)
		if (together->armed > 1)
			say(trigger, together);
}

void together_ended(struct trigger *trigger, const struct capture *capture)
{
	const struct together *together = capture->together;
	uint64_t first = capture->has_done ? capture->done.first_step : 0;
	if (!together || !together->at_step || together->armed < 2 || capture->facts.cycle || !first ||
	    first == together->at_step)
		return;
	char text[SENTENCE_BYTES], job[160], apart[160] = "";
	/* The others have begun by the time one is found to be late. */
	if (first >= together->at_step + together->schedule.active)
		snprintf(apart, sizeof apart,
			 ", and has no step in common with ranks that were; --warmup %" PRIu64
			 " would have been enough",
			 first - together->at_step + together->schedule.warmup);
	snprintf(job, sizeof job, "%s%s", *together->job ? " of job " : "", together->job);
	snprintf(text, sizeof text,
		 "rank %" PRId32 "%s began with step %" PRIu64 ", not with %" PRIu64 ": it was not ready in time%s",
		 capture->facts.who.rank, job, first, together->at_step, apart);
	tell(trigger, together, text);
}

void together_free(struct trigger *trigger)
{
	for (struct together *next; trigger->together; trigger->together = next) {
		next = trigger->together->next;
		free(trigger->together);
	}
}
