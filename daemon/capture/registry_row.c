/* registry_row.c - see registry_row.h. */
#include "registry_row.h"
#include "capture.h"
#include "family.h"
#include "registry.h"
#include "daemon/core/json.h"
#include "daemon/core/server.h"
#include "proto/base/array.h"
#include "proto/base/clock.h"
#include "proto/purpose.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum step_source registry_step_source(const struct process *process)
{
	uint32_t source = atomic_load_explicit(&process->page->source, memory_order_relaxed);
	if (source == STEP_SOURCE_NONE || !step_source_word(source))
		source = process->hello.step_source;
	return step_source_word(source) ? (enum step_source)source : STEP_SOURCE_NONE;
}

#define STEPS_TOLD 16

/* Fills in the last step times on the page, the newest first. Returns how many there are. */
static size_t page_times(const struct status_page *page, uint64_t steps, uint64_t times[STEPS_TOLD])
{
	size_t n = 0;
	for (uint64_t i = 0; i < STEPS_TOLD && i < steps; i++) {
		uint64_t time =
			atomic_load_explicit(&page->ring[(steps - i) % LIMIT_STATUS_RING], memory_order_relaxed);
		if (time && time < LIMIT_DURATION_NS)
			times[n++] = time;
	}
	return n;
}

/* The median of these; 0 if there are none. */
static uint64_t page_median(const struct status_page *page, uint64_t steps)
{
	uint64_t times[STEPS_TOLD];
	size_t n = page_times(page, steps, times);
	if (n == 0)
		return 0;
	qsort(times, n, sizeof *times, array_compare_unsigned);
	return times[n / 2];
}

uint64_t registry_step_ns(const struct process *process)
{
	/* Steps that only a capture counted, by a range or an operator, are not counted after it. */
	if (registry_step_source(process) == STEP_SOURCE_NONE)
		return 0;
	return page_median(process->page, atomic_load_explicit(&process->page->steps, memory_order_relaxed));
}

/* Oldest first. */
static void add_step_times(const struct process *process, uint64_t steps, cJSON *row)
{
	uint64_t times[STEPS_TOLD];
	size_t n = registry_step_source(process) == STEP_SOURCE_NONE ? 0 : page_times(process->page, steps, times);
	cJSON *list = cJSON_AddArrayToObject(row, "step_times_ns");
	while (n > 0)
		cJSON_AddItemToArray(list, cJSON_CreateNumber((double)times[--n]));
}

static void add_libraries(cJSON *row, uint32_t libraries)
{
	static const struct {
		uint32_t bit;
		const char *word;
	} names[] = {{LIBRARY_TORCH, "torch"},
		     {LIBRARY_CUDA, "cuda"},
		     {LIBRARY_CUPTI, "cupti"},
		     {LIBRARY_NVTX, "nvtx"},
		     {LIBRARY_PYTHON, "python"}};
	cJSON *list = cJSON_AddArrayToObject(row, "libraries");
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (libraries & names[i].bit)
			cJSON_AddItemToArray(list, cJSON_CreateString(names[i].word));
}

/* What a user should know about its steps: that each has several optimizers, that they are in doubt, or that they are
 * not the process's own. null: nothing. */
static void add_step_note(const struct process *process, uint64_t steps, cJSON *row)
{
	const struct message_hello *hello = &process->hello;
	enum step_source source = registry_step_source(process);
	/* Room for every sentence, with the names of the optimizers at their longest. */
	char note[sizeof hello->optimizers + 256];
	*note = 0;
	if (source == STEP_SOURCE_NONE && steps)
		snprintf(note, sizeof note, "counted by captures alone");
	else if (source != STEP_SOURCE_OPTIMIZER)
		;
	else if (hello->steps_unclear)
		snprintf(
			note, sizeof note,
			"not clear whether each step of %s is one: --step-optimizer NAME counts those of one optimizer",
			*hello->optimizers ? hello->optimizers : "an optimizer");
	else if (hello->step_optimizers > 1)
		snprintf(note, sizeof note, "%u optimizers a step: %s", hello->step_optimizers, hello->optimizers);
	if (hello->entry & ENTRY_ATTACH)
		snprintf(note + strlen(note), sizeof note - strlen(note), "%scounted from its attachment on",
			 *note ? "; " : "");
	json_add_text(row, "step_note", *note ? note : NULL);
}

/* How many batches it had for each purpose, as numbers and in words for people. null: it has shown no batches. */
static void add_batches(const struct status_page *page, cJSON *row)
{
	/* Training comes first. */
	static const enum purpose order[] = {PURPOSE_TRAINING, PURPOSE_VALIDATION, PURPOSE_TEST, PURPOSE_EVALUATION,
					     PURPOSE_INFERENCE};
	const char *newest = purpose_word(atomic_load_explicit(&page->batch_purpose, memory_order_relaxed));
	char text[160];
	size_t n = 0;
	*text = 0;
	for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
		const char *word = purpose_word(order[i]);
		char key[32];
		uint64_t count = atomic_load_explicit(&page->batches[order[i]], memory_order_relaxed);
		if (count > 1ull << 53)
			count = 1ull << 53;
		snprintf(key, sizeof key, "batches_%s", word);
		json_add_number(row, key, newest != NULL, (double)count);
		if (newest && count && n < sizeof text)
			n += (size_t)snprintf(text + n, sizeof text - n, "%s%s %llu", n ? ", " : "", word,
					      (unsigned long long)count);
	}
	json_add_text(row, "batches", *text ? text : NULL);
	json_add_text(row, "phase", newest);
}

void registry_describe(const struct process *process, uint64_t viewer, cJSON *row)
{
	const struct identity *who = &process->who;
	const struct capture *capture = capture_of_process(process);
	uint64_t steps = atomic_load_explicit(&process->page->steps, memory_order_relaxed);
	uint64_t last = atomic_load_explicit(&process->page->last, memory_order_relaxed);
	uint64_t now = clock_monotonic(), median;
	if (steps > 1ull << 53)
		steps = 1ull << 53;
	median = registry_step_ns(process);
	pid_t pid = registry_visible_pid(process, viewer);
	json_add_number(row, "pid", pid > 0, pid);
	cJSON_AddNumberToObject(row, "uid", who->uid);
	cJSON_AddStringToObject(row, "user", who->user);
	cJSON_AddStringToObject(row, "name", who->name);
	cJSON_AddStringToObject(row, "command", who->command);
	cJSON_AddStringToObject(row, "host", who->host);
	cJSON_AddStringToObject(row, "job", who->job);
	cJSON_AddStringToObject(row, "launcher", who->launcher);
	json_add_number(row, "rank", who->rank >= 0, who->rank);
	json_add_number(row, "local_rank", who->local_rank >= 0, who->local_rank);
	json_add_number(row, "world_size", who->world_size >= 0, who->world_size);
	const char *role = family_role_word(family_role(process));
	json_add_text(row, "role", role);
	cJSON_AddStringToObject(row, "torch_version", who->torch_version);
	add_libraries(row, process->hello.libraries);
	cJSON_AddNumberToObject(row, "step", (double)steps);
	cJSON_AddStringToObject(row, "step_source", step_source_word(registry_step_source(process)));
	add_step_note(process, steps, row);
	add_batches(process->page, row);
	json_add_number(row, "step_ns", median, (double)median);
	add_step_times(process, steps, row);
	json_add_time(row, "last_step_at", last && last <= now ? clock_realtime() - (now - last) : 0);
	json_add_time(row, "registered_at", process->registered_at);
	cJSON_AddStringToObject(row, "state", capture ? capture_status_word(capture_status_now(capture)) : "idle");
	if (capture) {
		char id[ID_BYTES];
		capture_id_text(capture->facts.number, process->server->user, id);
		cJSON_AddStringToObject(row, "capture_id", id);
	} else {
		cJSON_AddNullToObject(row, "capture_id");
	}
	cJSON_AddStringToObject(row, "agent_version", who->agent_version);
}
