/* cancel.c - `profd cancel`: ends captures that are under way, wherever they are. */
#include "client/link/collect.h"
#include "client/ui/json.h"
#include "client/ui/text.h"
#include "client/verbs/arguments.h"
#include "client/verbs/commands.h"

#include <unistd.h>

struct cancelled {
	struct collect captures, triggers;
};

static void take_row(struct daemon *daemon, const cJSON *row, int fd, void *context)
{
	struct cancelled *cancelled = context;
	bool trigger = reply_is_row(row, "taken_back");

	if (json_text(row, trigger ? "trigger_id" : "capture_id"))
		collect_row(daemon, row, fd, trigger ? &cancelled->triggers : &cancelled->captures);
}

/* Sends one request, whose member has been added; takes it. */
static int cancel(struct daemons *daemons, cJSON *request, cJSON *captures, cJSON *triggers)
{
	struct cancelled cancelled = {{"cancelled", captures}, {"taken_back", triggers}};
	struct failure failure;
	int code = EXIT_DONE;

	if (!daemons_query(daemons, request, take_row, &cancelled, &failure))
		code = failure_print(&failure);
	cJSON_Delete(request);
	return code;
}

/* Whose it was, where it was not one's own. */
static void tell_owner(const cJSON *capture)
{
	const char *user = json_text(capture, "user"), *name = json_text(capture, "name");
	double uid = json_number(capture, "uid", -1);

	if (uid >= 0 && uid != (double)getuid())
		note("capture %s was of process %.0f (%s) of the user %s", json_text(capture, "capture_id"),
		     json_number(capture, "pid", 0), name ? name : "?", user ? user : "?");
}

static int worse(int code, int other)
{
	return code == EXIT_DONE ? other : code;
}

int command_cancel(struct arguments *arguments)
{
	const char *trigger = arguments_text(arguments, "trigger", NULL);
	bool all = arguments_has(arguments, "all");
	struct daemons daemons;
	cJSON *cancelled, *triggers, *request;
	const cJSON *capture, *row;
	int code;

	if (!all && !trigger && !arguments->pid_count && !arguments->word_count)
		return fail(EXIT_USAGE, "cancel what? Name captures, or give --pid PID, --trigger ID or --all; `profd "
					"captures` lists them");
	code = daemons_need(&daemons);
	if (code)
		return code;
	cancelled = need(cJSON_CreateArray());
	triggers = need(cJSON_CreateArray());
	if (all) {
		request = request_new("cancel");
		need(cJSON_AddTrueToObject(request, "all"));
		code = worse(code, cancel(&daemons, request, cancelled, triggers));
	}
	if (trigger) {
		request = request_new("cancel");
		json_add_text(request, "trigger_id", trigger);
		code = worse(code, cancel(&daemons, request, cancelled, triggers));
	}
	for (size_t i = 0; i < arguments->pid_count; i++) {
		request = request_new("cancel");
		need(cJSON_AddNumberToObject(request, "pid", (double)arguments->pids[i]));
		code = worse(code, cancel(&daemons, request, cancelled, triggers));
	}
	for (size_t i = 0; i < arguments->word_count; i++) {
		request = request_new("cancel");
		json_add_text(request, "capture_id", arguments->words[i]);
		code = worse(code, cancel(&daemons, request, cancelled, triggers));
	}
	if (code == EXIT_DONE && cJSON_GetArraySize(cancelled) == 0 && cJSON_GetArraySize(triggers) == 0)
		code = fail(EXIT_NO_TARGET,
			    "nothing was being recorded there; `profd captures` lists what is finished");
	if (arguments_format(arguments) == FORMAT_JSON) {
		cJSON *object = json_new("cancel");

		cJSON *ids = need(cJSON_AddArrayToObject(object, "cancelled"));

		cJSON_ArrayForEach(capture, cancelled)
			cJSON_AddItemToArray(ids, need(cJSON_CreateString(json_text(capture, "capture_id"))));
		cJSON_AddItemToObject(object, "captures", cancelled);
		ids = need(cJSON_AddArrayToObject(object, "taken_back"));
		cJSON_ArrayForEach(row, triggers)
			cJSON_AddItemToArray(ids, need(cJSON_CreateString(json_text(row, "trigger_id"))));
		json_print(object);
	} else {
		if (arguments_format(arguments) == FORMAT_CSV)
			puts("capture_id");
		cJSON_ArrayForEach(capture, cancelled)
		{
			printf("%s\n", json_text(capture, "capture_id"));
			tell_owner(capture);
		}
		cJSON_ArrayForEach(row, triggers) note("trigger %s waits no more", json_text(row, "trigger_id"));
		cJSON_Delete(cancelled);
	}
	cJSON_Delete(triggers);
	daemons_deinit(&daemons);
	return code;
}
