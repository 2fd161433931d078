/* trigger_request.c - see trigger_request.h. */
#include "trigger_request.h"

#include "client/link/collect.h"
#include "client/ui/json.h"
#include "client/ui/text.h"
#include "client/verbs/chosen.h"

#include "proto/events.h"
#include "proto/limits.h"
#include "proto/schedule.h"

#include <string.h>

#define TIMEOUT_NS 120000000000ll
/* A validation comes once in a while, and so does an epoch. */
#define PHASE_TIMEOUT_NS 3600000000000ll

int64_t trigger_window(const struct arguments *a)
{
	return arguments_has(a, "look") ? arguments_number(a, "look", 0) : arguments_number(a, "duration", 0);
}

bool trigger_counts_epochs(const struct arguments *a)
{
	return strcmp(arguments_text(a, "unit", ""), "epoch") == 0;
}

const char *trigger_batches(const struct arguments *a)
{
	const char *phase = arguments_text(a, "phase", "");

	/* Its words are those. */
	if (*phase)
		return phase;
	if (trigger_counts_epochs(a))
		return batches_word(BATCHES_EPOCH);
	return strcmp(arguments_text(a, "unit", ""), "batch") == 0 ? batches_word(BATCHES_ANY) : "";
}

int64_t trigger_timeout(const struct arguments *a)
{
	int64_t repeat = arguments_number(a, "repeat", 1);
	int64_t total;

	if (arguments_has(a, "timeout"))
		total = arguments_number(a, "timeout", 0);
	else if (repeat == 0 || repeat > 30)
		total = (int64_t)LIMIT_DURATION_NS;
	else
		total = (arguments_has(a, "phase") || trigger_counts_epochs(a) ? PHASE_TIMEOUT_NS : TIMEOUT_NS) *
				repeat +
			trigger_window(a);
	total += arguments_number(a, "wait-for", 0);
	return total < (int64_t)LIMIT_DURATION_NS ? total : (int64_t)LIMIT_DURATION_NS;
}

int trigger_check(const struct arguments *a)
{
	struct schedule schedule = {
		.skip_first = (uint32_t)arguments_number(a, "skip-first", 0),
		.wait = (uint32_t)arguments_number(a, "wait-steps", 0),
		.warmup = (uint32_t)arguments_number(a, "warmup", 1),
		.active = (uint32_t)arguments_number(a, "steps", 3),
		.repeat = (uint32_t)arguments_number(a, "repeat", 1),
	};
	const char *refusal = schedule_check(&schedule);

	if (chosen_check(a))
		return EXIT_USAGE;
	if (arguments_has(a, "at-step") && arguments_has(a, "at-multiple"))
		return fail(EXIT_USAGE, "give --at-step or --at-multiple, not both");
	if (arguments_has(a, "at-step") && arguments_has(a, "skip-first"))
		return fail(EXIT_USAGE, "give --at-step or --skip-first, not both");
	return refusal ? fail(EXIT_USAGE, "%s", refusal) : EXIT_DONE;
}

/* What both verbs have. `one`: a window of time or an epoch is recorded, which is one step, and whole. */
static cJSON *request_steps(const struct arguments *a, bool one)
{
	cJSON *object = request_new("trigger");
	cJSON *schedule = need(cJSON_AddObjectToObject(object, "schedule"));

	cJSON_AddNumberToObject(schedule, "skip_first", (double)arguments_number(a, "skip-first", 0));
	cJSON_AddNumberToObject(schedule, "wait", (double)arguments_number(a, "wait-steps", 0));
	cJSON_AddNumberToObject(schedule, "warmup", (double)arguments_number(a, "warmup", one ? 0 : 1));
	cJSON_AddNumberToObject(schedule, "active", (double)arguments_number(a, "steps", one ? 1 : 3));
	cJSON_AddNumberToObject(schedule, "repeat", (double)arguments_number(a, "repeat", 1));
	cJSON_AddNumberToObject(object, "at_step", (double)arguments_number(a, "at-step", 0));
	cJSON_AddNumberToObject(object, "at_multiple", (double)arguments_number(a, "at-multiple", 0));
	cJSON_AddNumberToObject(object, "max_events", (double)arguments_number(a, "max-events", 0));
	cJSON_AddNumberToObject(object, "max_bytes", (double)arguments_number(a, "max-bytes", 0));
	cJSON_AddNumberToObject(object, "stacks_rate", (double)arguments_number(a, "stacks-rate", 0));
	json_add_text(object, "graphs", arguments_text(a, "graphs", "nodes"));
	json_add_text(object, "api", arguments_text(a, "api", "launches"));
	return object;
}

/* Everything but the targets. */
static cJSON *request(const struct arguments *a)
{
	cJSON *object = request_steps(a, trigger_window(a) || trigger_counts_epochs(a));
	bool look = arguments_has(a, "look");

	cJSON_AddNumberToObject(object, "wait_for", (double)arguments_number(a, "wait-for", 0));
	cJSON_AddNumberToObject(object, "duration", (double)trigger_window(a));
	json_add_text(object, "step_range", arguments_text(a, "step-range", ""));
	json_add_text(object, "step_operator", arguments_text(a, "step-op", ""));
	json_add_text(object, "step_optimizer", arguments_text(a, "step-optimizer", ""));
	json_add_text(object, "batches", trigger_batches(a));
	json_add_text(object, "label", look ? "look" : arguments_text(a, "label", ""));
	cJSON_AddNumberToObject(object, "timeout", (double)trigger_timeout(a));
	cJSON_AddBoolToObject(object, "follow", !arguments_has(a, "no-wait"));
	request_collectors(object, look ? collectors_asked(ASKED_ALWAYS) : chosen_collectors(a));
	return object;
}

cJSON *trigger_request_ahead(const struct arguments *a)
{
	/* All others say what is to be recorded. */
	static const char *const of_the_command[] = {"name", "job", "daemon", "no-daemon-start"};
	size_t count = 0;
	cJSON *object;

	for (size_t i = 0; i < sizeof of_the_command / sizeof *of_the_command; i++)
		for (size_t j = 0; j < a->given_count; j++)
			count += strcmp(a->given[j].row->name, of_the_command[i]) == 0;
	if (count == a->given_count)
		return NULL;
	object = request_steps(a, false);
	need(cJSON_AddTrueToObject(need(cJSON_AddObjectToObject(object, "targets")), "descendants"));
	json_add_text(object, "label", arguments_text(a, "label", ""));
	cJSON_AddNumberToObject(object, "timeout", (double)arguments_number(a, "timeout", (int64_t)LIMIT_DURATION_NS));
	cJSON_AddBoolToObject(object, "follow", false);
	request_collectors(object, chosen_collectors(a));
	return object;
}

/* The daemon with which a process is registered. If it is registered with none, the first one, which will say so. */
static unsigned home(struct daemons *daemons, int64_t pid)
{
	cJSON *ask = request_new("ps");
	unsigned found = 0;

	need(cJSON_AddNumberToObject(ask, "pid", (double)pid));
	for (unsigned i = 0; i < daemons->count; i++) {
		struct collect collect = {"process", need(cJSON_CreateArray())};
		struct failure failure;
		bool here = daemon_query(&daemons->list[i], ask, collect_row, &collect, &failure) &&
			    cJSON_GetArraySize(collect.array) > 0;

		cJSON_Delete(collect.array);
		/* Only the daemon that has the process says "not yours" or "busy". */
		if (here || failure.error == ERROR_NOT_YOURS) {
			found = i;
			if (here)
				break;
		}
	}
	cJSON_Delete(ask);
	return found;
}

void trigger_requests(const struct arguments *a, struct daemons *daemons, cJSON *requests[DAEMONS_MAX])
{
	cJSON *targets;

	if (a->pid_count) {
		for (size_t i = 0; i < a->pid_count; i++) {
			unsigned daemon = daemons->count > 1 ? home(daemons, a->pids[i]) : 0;
			cJSON *pids;

			if (!requests[daemon]) {
				requests[daemon] = request(a);
				targets = need(cJSON_AddObjectToObject(requests[daemon], "targets"));
				need(cJSON_AddArrayToObject(targets, "pids"));
			}
			targets = cJSON_GetObjectItemCaseSensitive(requests[daemon], "targets");
			pids = cJSON_GetObjectItemCaseSensitive(targets, "pids");
			cJSON_AddItemToArray(pids, need(cJSON_CreateNumber((double)a->pids[i])));
		}
		return;
	}
	for (unsigned i = 0; i < daemons->count; i++) {
		requests[i] = request(a);
		targets = need(cJSON_AddObjectToObject(requests[i], "targets"));
		if (arguments_has(a, "all"))
			need(cJSON_AddTrueToObject(targets, "all"));
		else if (arguments_has(a, "name"))
			json_add_text(targets, "name", arguments_text(a, "name", ""));
		else
			json_add_text(targets, "job", arguments_text(a, "job", ""));
	}
}
