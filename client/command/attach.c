/* attach.c - `profd attach`: brings the agent into a process that was started without it. */
#include "client/attach/bring.h"
#include "client/ui/failure.h"
#include "client/ui/json.h"
#include "client/ui/text.h"
#include "client/verbs/arguments.h"
#include "client/verbs/commands.h"

#include <stdio.h>

static void tell(int64_t pid, const struct attachment *done, enum output_format format)
{
	char stood[TEXT_FIGURE_BYTES], loaded[TEXT_FIGURE_BYTES];

	if (format == FORMAT_JSON) {
		cJSON *object = json_new("attach");

		json_add_pid(object, pid);
		json_add_text(object, "way", done->way);
		if (done->tid)
			cJSON_AddNumberToObject(object, "tid", (double)done->tid);
		else
			cJSON_AddNullToObject(object, "tid");
		cJSON_AddNumberToObject(object, "stood_ns", (double)done->stood_ns);
		cJSON_AddNumberToObject(object, "loaded_ns", (double)done->loaded_ns);
		json_print(object);
		return;
	}
	text_duration(loaded, done->loaded_ns);
	if (done->tid)
		printf("process %lld has the agent now. Its thread %lld stood still for %s; the agent was there %s later.\n",
		       (long long)pid, (long long)done->tid, text_duration(stood, done->stood_ns), loaded);
	else
		printf("process %lld has the agent now. Nothing was stopped; the agent was there after %s.\n",
		       (long long)pid, loaded);
	printf("Steps are counted from now on. Next: profd trigger --pid %lld\n", (long long)pid);
}

int command_attach(struct arguments *arguments)
{
	enum output_format format = arguments_format(arguments);
	int64_t pid = arguments_number(arguments, "pid", 0);
	struct daemons daemons;
	struct bring bring = {.daemons = &daemons,
			      .patience = arguments_number(arguments, "timeout", BRING_PATIENCE_NS)};
	struct attachment done;
	int code;

	if (!pid)
		return fail(EXIT_USAGE, "to which process? Give --pid PID; `profd attach --help` explains it");
	code = daemons_need(&daemons);
	if (!code)
		code = bring_agents(&bring, &pid, 1, &done);
	if (!code)
		tell(pid, &done, format);
	daemons_deinit(&daemons);
	return code;
}
