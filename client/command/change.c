/* change.c - see change.h. */
#include "change.h"
#include "client/link/connection.h"
#include "client/ui/json.h"
#include "client/ui/text.h"
#include "client/verbs/arguments.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct outcome {
	const char *row;
	bool done;
	struct failure kept;
};

static void take(struct daemon *daemon, const cJSON *row, int fd, void *context)
{
	struct outcome *outcome = context;

	(void)daemon;
	if (fd >= 0)
		close(fd);
	if (reply_is_row(row, outcome->row))
		outcome->done = true;
	else if (reply_is_row(row, "kept"))
		reply_error(row, &outcome->kept);
}

static struct outcome change_one(struct daemons *daemons, const char *op, const char *done, const char *id)
{
	cJSON *request = request_new(op);
	cJSON *ids = need(cJSON_AddArrayToObject(request, "capture_ids"));
	struct outcome outcome = {.row = done};
	struct failure best = {0};

	cJSON_AddItemToArray(ids, need(cJSON_CreateString(id)));
	for (unsigned i = 0; i < daemons->count && !outcome.done; i++) {
		struct failure failure;

		outcome = (struct outcome){.row = done};
		if (!daemon_query(&daemons->list[i], request, take, &outcome, &failure))
			outcome.kept = failure;
		failure_merge(&best, &outcome.kept);
	}
	if (!outcome.done && best.error == ERROR_NONE)
		failure_set(&best, ERROR_NO_CAPTURE, id);
	outcome.kept = best;
	cJSON_Delete(request);
	return outcome;
}

int change_captures(struct arguments *arguments, const char *op, const char *done)
{
	struct daemons daemons;
	cJSON *changed, *kept;
	int code = daemons_need(&daemons);

	if (code)
		return code;
	changed = need(cJSON_CreateArray());
	kept = need(cJSON_CreateArray());
	for (size_t i = 0; i < arguments->word_count; i++) {
		char *id = text_utf8(arguments->words[i]);
		struct outcome outcome = change_one(&daemons, op, done, id);

		if (outcome.done) {
			cJSON_AddItemToArray(changed, need(cJSON_CreateString(id)));
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
		cJSON *object = json_new(op);

		cJSON_AddItemToObject(object, done, changed);
		cJSON_AddItemToObject(object, "kept", kept);
		json_print(object);
	} else {
		const cJSON *id;

		if (arguments_format(arguments) == FORMAT_CSV)
			puts("capture_id");
		cJSON_ArrayForEach(id, changed) printf("%s\n", id->valuestring);
		cJSON_Delete(changed);
		cJSON_Delete(kept);
	}
	daemons_deinit(&daemons);
	return code;
}
