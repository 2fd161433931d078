/* trigger_targets.c - see trigger_targets.h. Thread: the loop's. No locks. */
#include "trigger_targets.h"

#include "arming.h"
#include "capture.h"
#include "daemon/core/server.h"
#include "dry_run.h"
#include "family.h"
#include "live.h"
#include "process_stat.h"
#include "proto/base/array.h"
#include "proto/base/clock.h"
#include "registry.h"
#include "registry_row.h"
#include "together.h"
#include "trigger_reply.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

/* ARMs are sent in portions of at least PORTION_LEAST. In one turn the loop sends portions for PORTION_NS, then serves
 * others. At most UNANSWERED_MOST ARMs wait for an answer: agents share processors, and each agent's time to answer
 * begins with its ARM. */
#define PORTION_LEAST 16
#define PORTION_NS 3000000ull
#define UNANSWERED_MOST 1024
/* Ranks that a command has started are armed together, when all ranks of their world have shown how long their steps
 * take. Ranks that have not come after this time are on other machines. */
#define RANKS_NS 5000000000ull

/* The first minor version of the protocol whose agents count batches. */
#define BATCHES_MINOR 5

static enum error why_not(const struct trigger *trigger, const struct process *process, const char **ret_detail)
{
	const struct trigger_request *request = &trigger->request;
	*ret_detail = "";
	if (!trigger->admin && trigger->by.uid != process->who.uid)
		return ERROR_NOT_YOURS;
	if (capture_of_process(process))
		return ERROR_BUSY;
	enum step_source source = registry_step_source(process);
	bool named = trigger_request_watches(request);
	if ((request->at_step || request->at_multiple) &&
	    (named || source == STEP_SOURCE_RANGE || source == STEP_SOURCE_OPERATOR))
		return ERROR_AT_STEP_UNSEEN;
	if (source == STEP_SOURCE_NONE && !request->duration && !named)
		return ERROR_NO_STEPS;
	if (trigger->server->stopping) {
		*ret_detail = "the daemon is going down";
		return ERROR_FAILED;
	}
	if (request->batches && process->hello.minor < BATCHES_MINOR) {
		*ret_detail = "its agent was started with an earlier release, which does not count batches";
		return ERROR_UNAVAILABLE;
	}
	if (registry_has_new_filter(process)) {
		*ret_detail = registry_filter_sentence;
		return ERROR_UNAVAILABLE;
	}
	if (process->silent) {
		*ret_detail = "its agent has not answered the last time; is the process stopped?";
		return ERROR_FAILED;
	}
	return ERROR_NONE;
}

/* The index at which the serial is, or would be. */
static size_t tried_at(const struct trigger *trigger, uint64_t serial)
{
	return ARRAY_BEFORE(trigger->tried_count, at, trigger->tried[at] < serial);
}

static bool was_tried(const struct trigger *trigger, const struct process *process)
{
	size_t at = tried_at(trigger, process->serial);
	return at < trigger->tried_count && trigger->tried[at] == process->serial;
}

static bool remember_tried(struct trigger *trigger, const struct process *process)
{
	if (!ARRAY_GROW(trigger->tried, trigger->tried_count, trigger->tried_capacity))
		return false;
	size_t at = tried_at(trigger, process->serial);
	memmove(trigger->tried + at + 1, trigger->tried + at, (trigger->tried_count - at) * sizeof *trigger->tried);
	trigger->tried[at] = process->serial;
	trigger->tried_count++;
	return true;
}

/* The process shows no steps. A user who names a job, or processes by their name, does not mean it. */
static void leave_out(struct trigger *trigger, const struct process *process)
{
	const char *role = family_role_word(family_role(process));
	cJSON *row = reply_target(trigger, process, 0, ERROR_NO_STEPS);
	cJSON_ReplaceItemInObjectCaseSensitive(row, "outcome", cJSON_CreateString("left_out"));
	cJSON_AddStringToObject(row, "message", role ? role : "helper");
	reply_row(trigger, row);
	trigger->left_out++;
}

static void arm(struct trigger *trigger, struct process *process, struct together *together)
{
	const struct trigger_request *request = &trigger->request;
	const char *detail;
	char sentence[SENTENCE_BYTES];
	if (was_tried(trigger, process))
		return;
	enum error error = why_not(trigger, process, &detail);
	/* A job that has just started has shown no step yet: a client that waits for the job waits for its first steps,
	 * too. */
	if (error == ERROR_NO_STEPS && trigger->wait_until) {
		if (trigger->dry_run)
			dry_run_wait(trigger, process);
		return;
	}
	if (!remember_tried(trigger, process)) {
		error = ERROR_FAILED;
		detail = "the daemon is out of memory";
	}
	if (error == ERROR_NO_STEPS && !request->pid_count && family_is_bystander(process)) {
		leave_out(trigger, process);
		return;
	}
	if (error) {
		reply_refused(trigger, process, 0, error, detail);
		return;
	}
	/* Nobody knows how long a command takes until its first step. */
	if (trigger->root)
		trigger->deadline = clock_monotonic() + request->timeout;
	struct message_arm message = MESSAGE_INIT(ARM, arm);
	message.trigger = trigger->number;
	together_fill(trigger, process, together, &message);
	message.collectors = request->collectors;
	message.duration = request->duration;
	message.max_events = request->max_events;
	message.options = request->options;
	message.stacks_rate = request->stacks_rate;
	message.batches = request->batches;
	message_text(message.step_range, sizeof message.step_range, request->step_range);
	message_text(message.step_operator, sizeof message.step_operator, request->step_operator);
	message_text(message.step_optimizer, sizeof message.step_optimizer, request->step_optimizer);
	if (trigger->dry_run) {
		bool would = dry_run_arm(trigger, process, &message);
		if (together && would)
			together->armed++;
		return;
	}
	struct capture *capture = capture_new(process, trigger, &message, &error, sentence);
	if (!capture) {
		reply_refused(trigger, process, 0, error, sentence);
		return;
	}
	capture->together = together;
	trigger->waiting++;
}

/* Ranks of one job are armed at once: they are given one step. */
static size_t portion_of(const struct trigger *trigger)
{
	struct process **at = trigger->to_arm + trigger->to_arm_from;
	size_t left = trigger->to_arm_to - trigger->to_arm_from, n = left < PORTION_LEAST ? left : PORTION_LEAST;
	while (n < left && at[n] && at[n - 1] && at[n]->who.rank >= 0 && family_by_job(&at[n - 1], &at[n]) == 0)
		n++;
	return n;
}

static void arm_portion(struct trigger *trigger)
{
	size_t count = portion_of(trigger), there = 0;
	struct process **processes = trigger->to_arm + trigger->to_arm_from;
	struct together **together = calloc(count + 1, sizeof(struct together *));
	trigger->to_arm_from += count;
	for (size_t i = 0; i < count; i++)
		if (processes[i])
			processes[there++] = processes[i];
	if (together)
		together_plan(trigger, processes, there, together);
	for (size_t i = 0; i < there; i++)
		arm(trigger, processes[i], together ? together[i] : NULL);
	trigger->waiting -= (unsigned)count;
	free(together);
}

size_t targets_to_arm(const struct trigger *trigger)
{
	return trigger->to_arm_to - trigger->to_arm_from;
}

bool targets_may_arm(const struct trigger *trigger)
{
	return targets_to_arm(trigger) &&
	       (trigger->server->stopping || trigger->waiting - targets_to_arm(trigger) < UNANSWERED_MOST);
}

void targets_arm_some(struct trigger *trigger)
{
	uint64_t until = clock_monotonic() + PORTION_NS;
	while (targets_may_arm(trigger) && clock_monotonic() < until)
		arm_portion(trigger);
	if (targets_may_arm(trigger))
		live_arm_more(trigger->server);
}

/* Arms these processes, unless others are still being armed. Takes over the list, and reorders it. */
static void arm_all(struct trigger *trigger, struct process **processes, size_t count)
{
	if (targets_to_arm(trigger)) {
		free(processes);
		return;
	}
	if (count > 1)
		qsort(processes, count, sizeof(struct process *), family_by_job);
	free(trigger->to_arm);
	trigger->to_arm = processes;
	trigger->to_arm_from = 0;
	trigger->to_arm_to = count;
	trigger->waiting += (unsigned)count;
	targets_arm_some(trigger);
}

void targets_process_gone(const struct process *process)
{
	for (struct trigger *trigger = live_of(process->server)->triggers; trigger; trigger = trigger->next)
		for (size_t i = trigger->to_arm_from; i < trigger->to_arm_to; i++)
			if (trigger->to_arm[i] == process)
				trigger->to_arm[i] = NULL;
}

void targets_stop(struct trigger *trigger)
{
	trigger->wait_until = 0;
	trigger->waiting -= (unsigned)targets_to_arm(trigger);
	trigger->to_arm_from = trigger->to_arm_to;
}

static bool matches(const struct trigger *trigger, const struct process *process)
{
	const struct trigger_request *request = &trigger->request;
	if (!trigger->admin && trigger->by.uid != process->who.uid)
		return false;
	if (*request->name)
		return fnmatch(request->name, process->who.name, 0) == 0;
	if (*request->job)
		return strcmp(request->job, process->who.job) == 0;
	if (trigger->root)
		return family_is_of(process, trigger->root, trigger->root_start);
	return request->all;
}

bool targets_may_come(const struct trigger *trigger)
{
	if (process_start_time(trigger->root) == trigger->root_start)
		return true;
	for (const struct process *process = live_of(trigger->server)->processes; process; process = process->next)
		if (matches(trigger, process))
			return true;
	return false;
}

static bool is_rank(const struct process *process)
{
	return process->who.rank >= 0 && process->who.world_size > 1;
}

/* Leaves out ranks that wait for the others of their world. Reorders the list; returns how many are left. */
static size_t leave_early_ranks(struct trigger *trigger, struct process **found, size_t count)
{
	uint64_t now = clock_monotonic();
	size_t kept = 0;
	if (count > 1)
		qsort(found, count, sizeof(struct process *), family_by_job);
	for (size_t from = 0, to; from < count; from = to) {
		size_t timed = 0, world = 0;
		for (to = from; to < count && family_by_job(&found[from], &found[to]) == 0; to++) {
			if (!is_rank(found[to]))
				continue;
			timed += registry_step_ns(found[to]) != 0;
			world = (size_t)found[to]->who.world_size;
		}
		if (timed && !trigger->ranks_seen)
			trigger->ranks_seen = now;
		bool early = timed < world && (!timed || now < trigger->ranks_seen + RANKS_NS);
		for (size_t i = from; i < to; i++)
			if (!early || !is_rank(found[i]))
				found[kept++] = found[i];
	}
	return kept;
}

void targets_arm_matching(struct trigger *trigger)
{
	struct process **found = calloc(live_of(trigger->server)->process_count + 1, sizeof(struct process *));
	size_t count = 0;
	if (!found)
		return;
	for (struct process *process = live_of(trigger->server)->processes; process; process = process->next)
		if (matches(trigger, process) && !was_tried(trigger, process))
			found[count++] = process;
	if (trigger->root)
		count = leave_early_ranks(trigger, found, count);
	arm_all(trigger, found, count);
}

void targets_offer(struct process *process)
{
	for (struct trigger *trigger = live_of(process->server)->triggers; trigger; trigger = trigger->next) {
		if (trigger->wait_until && matches(trigger, process) && !(trigger->root && is_rank(process)))
			arm(trigger, process, NULL);
	}
}

void targets_arm_pids(struct trigger *trigger, const struct conn *conn)
{
	const struct trigger_request *request = &trigger->request;
	struct process **found = calloc(request->pid_count, sizeof(struct process *));
	size_t count = 0;
	for (size_t i = 0; found && i < request->pid_count; i++) {
		struct process *process = registry_find_for(conn, request->pids[i]);
		if (process)
			found[count++] = process;
	}
	/* Processes that exist come first. The reply gives the first refusal, and "not yours" says more than "no such
	 * process". */
	bool out_of_memory = !found;
	if (found)
		arm_all(trigger, found, count);
	for (size_t i = 0; i < request->pid_count; i++) {
		pid_t pid = request->pids[i];
		bool known = registry_find_for(conn, pid) != NULL;
		if (!known || out_of_memory)
			reply_refused(trigger, NULL, pid, known ? ERROR_FAILED : registry_missing(conn, pid),
				      known ? "the daemon is out of memory" : "");
	}
}
