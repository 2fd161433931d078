/* follow_rows.c - see follow_rows.h. */
#include "follow_rows.h"

#include "client/ui/clock.h"
#include "client/ui/json.h"
#include "client/ui/text.h"
#include "follow_tell.h"
#include "presence.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct followed *find(struct follow *follow, unsigned daemon, const char *id)
{
	for (size_t i = 0; i < follow->count; i++)
		if (follow->captures[i].daemon == daemon && strcmp(follow->captures[i].id, id) == 0)
			return &follow->captures[i];
	return NULL;
}

struct followed *follow_capture_of(struct follow *follow, unsigned daemon, const cJSON *row)
{
	const char *id = json_text(row, "capture_id");
	struct followed *followed;

	if (!id)
		return NULL;
	followed = find(follow, daemon, id);
	if (followed)
		return followed;
	follow->captures = need(reallocarray(follow->captures, follow->count + 1, sizeof *follow->captures));
	followed = &follow->captures[follow->count++];
	follow->kept_rows++;
	*followed = (struct followed){.daemon = daemon, .window = follow->window};
	snprintf(followed->id, sizeof followed->id, "%s", id);
	followed->pid = (int64_t)json_number(row, "pid", 0);
	followed->rank = (int64_t)json_number(row, "rank", -1);
	return followed;
}

void follow_refuse(struct follow *follow, const struct failure *failure)
{
	/* A daemon may tell it in the row and once more in its last packet. */
	for (size_t i = 0; i < follow->refused_count; i++)
		if (follow->refused[i].pid == failure->pid && failure->pid &&
		    follow->refused[i].error == failure->error)
			return;
	follow->refused = need(reallocarray(follow->refused, follow->refused_count + 1, sizeof *follow->refused));
	follow->refused[follow->refused_count++] = *failure;
	follow->kept_rows++;
}

static void add_members(cJSON **array, const cJSON *row, const char *const *keys, size_t count)
{
	cJSON *object = need(cJSON_CreateObject());

	if (!*array)
		*array = need(cJSON_CreateArray());
	for (size_t i = 0; i < count; i++) {
		const cJSON *item = cJSON_GetObjectItemCaseSensitive(row, keys[i]);

		cJSON_AddItemToObject(object, keys[i], need(item ? cJSON_Duplicate(item, true) : cJSON_CreateNull()));
	}
	cJSON_AddItemToArray(*array, object);
}

bool follow_any_known(const struct follow *follow, unsigned daemon)
{
	for (size_t i = 0; i < follow->count; i++)
		if (follow->captures[i].daemon == daemon)
			return true;
	return false;
}

bool follow_is_too_early(const struct follow *follow, unsigned daemon, const struct failure *failure)
{
	const struct follow_link *link = &follow->links[daemon];
	const cJSON *pids =
		cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(link->request, "targets"), "pids");

	return cJSON_GetArraySize(pids) == 1 && !follow_any_known(follow, daemon) && clock_now() < link->agents_until &&
	       (failure->error == ERROR_NO_AGENT || failure->error == ERROR_NOT_REGISTERED);
}

void follow_take_target(struct follow *follow, unsigned daemon, const cJSON *row)
{
	const char *outcome = json_text(row, "outcome");
	const char *message = json_text(row, "message");
	struct failure failure;
	char detail[32];

	if (outcome && strcmp(outcome, "armed") == 0) {
		struct followed *followed = follow_capture_of(follow, daemon, row);
		const char *id = json_text(row, "trigger_id");

		if (followed)
			follow_set_status(followed, "armed");
		if (id)
			snprintf(follow->trigger_id[daemon], FOLLOW_ID_BYTES, "%s", id);
		return;
	}
	if (outcome && strcmp(outcome, "left_out") == 0) {
		static const char *const keys[] = {"pid", "name", "message"};

		follow->kept_rows++;
		add_members(&follow->left_out, row, keys, sizeof keys / sizeof *keys);
		return;
	}
	snprintf(detail, sizeof detail, "%.0f", json_number(row, "pid", 0));
	failure_set(&failure, error_from_word(outcome ? outcome : ""), detail);
	snprintf(failure.word, sizeof failure.word, "%s", outcome ? outcome : "failed");
	if (message)
		snprintf(failure.message, sizeof failure.message, "%s", message);
	failure.pid = (int64_t)json_number(row, "pid", 0);
	if (follow_is_too_early(follow, daemon, &failure))
		return;
	presence_explain(&failure);
	follow_refuse(follow, &failure);
}

void follow_take_together(struct follow *follow, const cJSON *row)
{
	static const char *const keys[] = {"job", "processes", "at_step", "message"};
	const char *message = json_text(row, "message");

	follow->kept_rows++;
	add_members(&follow->together, row, keys, sizeof keys / sizeof *keys);
	if (message)
		note("%s", message);
}

void follow_take_switched(struct follow *follow, const cJSON *row)
{
	static const char *const keys[] = {"capture_id", "goes_on_as", "pid",	 "rank",   "changes",
					   "last_step",	 "first_step", "passed", "message"};
	const char *message = json_text(row, "message");

	follow->kept_rows++;
	add_members(&follow->switched, row, keys, sizeof keys / sizeof *keys);
	if (message)
		note("`profd set`: %s", message);
}

void follow_take_progress(struct follow *follow, unsigned daemon, const cJSON *row)
{
	struct followed *followed = follow_capture_of(follow, daemon, row);
	const char *status = json_text(row, "status");

	if (!followed || followed->captured)
		return;
	followed->step = (int64_t)json_number(row, "step", 0);
	followed->of = (int64_t)json_number(row, "of", 0);
	followed->warmup_step = (int64_t)json_number(row, "warmup_step", 0);
	followed->since = clock_now() - (int64_t)json_number(row, "elapsed", 0);
	if (status)
		follow_set_status(followed, status);
}

void follow_take_captured(struct follow *follow, unsigned daemon, const cJSON *row)
{
	struct followed *followed = follow_capture_of(follow, daemon, row);
	const char *status = json_text(row, "status");

	if (!followed || followed->captured)
		return;
	followed->captured = need(cJSON_Duplicate(row, true));
	follow->kept_rows++;
	cJSON_DeleteItemFromObjectCaseSensitive(followed->captured, "row");
	followed->pid = (int64_t)json_number(row, "pid", (double)followed->pid);
	followed->rank = (int64_t)json_number(row, "rank", (double)followed->rank);
	follow_set_status(followed, status ? status : "failed");
}

static void add_list(cJSON *object, const char *key, const cJSON *list)
{
	cJSON_AddItemToObject(object, key, need(list ? cJSON_Duplicate(list, true) : cJSON_CreateArray()));
}

void follow_add_others(cJSON *object, const struct follow *follow)
{
	cJSON *refused = need(cJSON_AddArrayToObject(object, "refused"));

	for (size_t i = 0; i < follow->refused_count; i++) {
		cJSON *row = need(cJSON_CreateObject());

		json_add_pid(row, follow->refused[i].pid);
		json_add_text(row, "code", follow->refused[i].word);
		json_add_text(row, "message", follow->refused[i].message);
		cJSON_AddItemToArray(refused, row);
	}
	add_list(object, "left_out", follow->left_out);
	add_list(object, "together", follow->together);
}
