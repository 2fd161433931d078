/* detach.c - `profd detach`: takes the agent out of processes again. */
#include "client/attach/detach.h"
#include "client/link/collect.h"
#include "client/ui/json.h"
#include "client/ui/text.h"
#include "client/verbs/arguments.h"
#include "client/verbs/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What has come of it so far. */
struct result {
	cJSON *detached, *kept;
	enum output_format format;
	int code;
};

static int check(const struct arguments *a)
{
	unsigned kinds = 0u + (a->pid_count > 0) + arguments_has(a, "name") + arguments_has(a, "job");

	if (kinds == 0)
		return fail(EXIT_USAGE,
			    "from which process? Give --pid PID, --job JOB or --name GLOB; `profd detach --help` "
			    "explains it");
	return kinds == 1 ? EXIT_DONE : fail(EXIT_USAGE, "give one of --pid, --job and --name, not several");
}

/* Those that are named by number: of them no more is known. */
static cJSON *by_number(const struct arguments *a)
{
	cJSON *chosen = need(cJSON_CreateArray());

	for (size_t i = 0; i < a->pid_count; i++) {
		cJSON *row = need(cJSON_CreateObject());

		json_add_pid(row, a->pids[i]);
		cJSON_AddItemToArray(chosen, row);
	}
	return chosen;
}

static bool meets(const cJSON *process, const char *job, const char *name)
{
	const char *its_job = json_text(process, "job"), *its_name = json_text(process, "name");

	return job ? its_job && strcmp(its_job, job) == 0 : glob_matches(name, its_name ? its_name : "");
}

/* Rows of `ps`: what has no agent is not there. 0, or an exit code after its sentence. */
static int by_word(const struct arguments *a, struct daemons *daemons, cJSON **ret)
{
	const char *job = arguments_text(a, "job", NULL), *name = arguments_text(a, "name", NULL);
	cJSON *request = request_new("ps");
	char what[FAILURE_TEXT_BYTES];
	struct failure failure;
	int code = collect_rows(daemons, request, "process", ret);

	cJSON_Delete(request);
	for (int i = cJSON_GetArraySize(*ret); i > 0; i--)
		if (!meets(cJSON_GetArrayItem(*ret, i - 1), job, name))
			cJSON_DeleteItemFromArray(*ret, i - 1);
	if (code || cJSON_GetArraySize(*ret))
		return code;
	snprintf(what, sizeof what, "%s %s", job ? "job" : "name", job ? job : name);
	failure_set(&failure, ERROR_NO_TARGET, what);
	return failure_print(&failure);
}

/* What JSON says of either kind. */
static cJSON *row_of(const cJSON *process)
{
	static const char *const keys[] = {"pid", "name", "job", "rank"};
	cJSON *row = need(cJSON_CreateObject());

	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		const cJSON *item = cJSON_GetObjectItemCaseSensitive(process, keys[i]);

		cJSON_AddItemToObject(row, keys[i], need(item ? cJSON_Duplicate(item, true) : cJSON_CreateNull()));
	}
	return row;
}

static void print_done(const cJSON *process)
{
	char *name = text_safe(json_text(process, "name"));
	double rank = json_number(process, "rank", -1);

	printf("the agent has left process %.0f", json_number(process, "pid", 0));
	if (*name)
		printf(" (%s", name);
	if (*name && rank >= 0)
		printf(", rank %.0f", rank);
	puts(*name ? ")" : "");
	/* The next one may take seconds. */
	fflush(stdout);
	free(name);
}

/* One that lives in another pid namespace can be triggered from here, but not named. */
static bool detach(struct daemons *daemons, const cJSON *process, struct failure *failure)
{
	int64_t pid = (int64_t)json_number(process, "pid", 0);
	const char *name = json_text(process, "name");
	char sentence[FAILURE_TEXT_BYTES];

	if (pid > 0)
		return detach_tried(daemons, pid, failure);
	snprintf(sentence, sizeof sentence,
		 "a process %.64s lives in another pid namespace, where it has a number: detach it from there",
		 name ? name : "?");
	failure_set(failure, ERROR_UNAVAILABLE, sentence);
	return false;
}

static void detach_all(struct daemons *daemons, const cJSON *chosen, struct result *result)
{
	const cJSON *process;

	cJSON_ArrayForEach(process, chosen)
	{
		struct failure failure;
		cJSON *row = row_of(process);

		if (detach(daemons, process, &failure)) {
			cJSON_AddItemToArray(result->detached, row);
			if (result->format != FORMAT_JSON)
				print_done(process);
			continue;
		}
		result->code = exit_worse(result->code, failure_print(&failure));
		json_add_text(row, "code", failure.word);
		json_add_text(row, "message", failure.message);
		cJSON_AddItemToArray(result->kept, row);
	}
}

static void print_end(struct result *result)
{
	if (result->format == FORMAT_JSON) {
		cJSON *object = json_new("detach");

		cJSON_AddItemToObject(object, "detached", result->detached);
		cJSON_AddItemToObject(object, "kept", result->kept);
		json_print(object);
		return;
	}
	if (cJSON_GetArraySize(result->detached))
		puts("No thread, hook or descriptor of it is there. Its library stays in memory, unused.\n"
		     "If it recorded a GPU, CUPTI stays loaded too, and each launch costs a little more.");
	cJSON_Delete(result->detached);
	cJSON_Delete(result->kept);
}

int command_detach(struct arguments *arguments)
{
	struct daemons daemons;
	struct result result = {.format = arguments_format(arguments)};
	cJSON *chosen = NULL;
	int code = check(arguments);

	if (code)
		return code;
	code = daemons_need(&daemons);
	if (!code && arguments->pid_count)
		chosen = by_number(arguments);
	else if (!code)
		code = by_word(arguments, &daemons, &chosen);
	if (!code) {
		result.detached = need(cJSON_CreateArray());
		result.kept = need(cJSON_CreateArray());
		detach_all(&daemons, chosen, &result);
		print_end(&result);
		code = result.code;
	}
	cJSON_Delete(chosen);
	daemons_deinit(&daemons);
	return code;
}
