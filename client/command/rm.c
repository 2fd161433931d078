/* rm.c - `profd rm ID...`: each capture at the daemon that has it. */
#include "../command.h"
#include "../output.h"
#include "../text.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct outcome {
	bool removed;
	struct failure kept;
};

static void take(struct daemon *daemon, const cJSON *row, int fd, void *context)
{
	struct outcome *outcome = context;

	(void)daemon;
	if (fd >= 0)
		close(fd);
	if (reply_is_row(row, "removed"))
		outcome->removed = true;
	else if (reply_is_row(row, "kept"))
		reply_error(row, &outcome->kept);
}

static struct outcome remove_one(struct daemons *daemons, const char *id)
{
	cJSON *request = request_new("rm");
	cJSON *ids = need(cJSON_AddArrayToObject(request, "capture_ids"));
	struct outcome outcome = {0};
	struct failure best = {0};

	cJSON_AddItemToArray(ids, need(cJSON_CreateString(id)));
	for (unsigned i = 0; i < daemons->count && !outcome.removed; i++) {
		struct failure failure;

		outcome = (struct outcome){0};
		if (!daemon_query(&daemons->list[i], request, take, &outcome, &failure))
			outcome.kept = failure;
		failure_merge(&best, &outcome.kept);
	}
	if (!outcome.removed && best.error == ERROR_NONE)
		failure_set(&best, ERROR_NO_CAPTURE, id);
	outcome.kept = best;
	cJSON_Delete(request);
	return outcome;
}

int command_rm(struct arguments *arguments)
{
	struct daemons daemons;
	cJSON *removed, *kept;
	int code = daemons_need(&daemons);

	if (code)
		return code;
	removed = need(cJSON_CreateArray());
	kept = need(cJSON_CreateArray());
	for (size_t i = 0; i < arguments->word_count; i++) {
		char *id = text_utf8(arguments->words[i]);
		struct outcome outcome = remove_one(&daemons, id);

		if (outcome.removed) {
			cJSON_AddItemToArray(removed, need(cJSON_CreateString(id)));
		} else {
			cJSON *row = need(cJSON_CreateObject());
			int one = failure_print(&outcome.kept);

			code = code == EXIT_DONE ? one : code;
			json_add_text(row, "capture_id", id);
			json_add_text(row, "code", outcome.kept.word);
			json_add_text(row, "message", outcome.kept.message);
			cJSON_AddItemToArray(kept, row);
		}
		free(id);
	}
	if (arguments_format(arguments) == FORMAT_JSON) {
		cJSON *object = json_new("rm");

		cJSON_AddItemToObject(object, "removed", removed);
		cJSON_AddItemToObject(object, "kept", kept);
		json_print(object);
	} else {
		const cJSON *id;

		if (arguments_format(arguments) == FORMAT_CSV)
			puts("capture_id");
		cJSON_ArrayForEach(id, removed) printf("%s\n", id->valuestring);
		cJSON_Delete(removed);
		cJSON_Delete(kept);
	}
	daemons_deinit(&daemons);
	return code;
}
