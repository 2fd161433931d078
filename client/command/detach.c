/* detach.c - `profd detach`: takes the agent out of a process again. */
#include "client/attach/detach.h"
#include "client/ui/json.h"
#include "client/verbs/arguments.h"
#include "client/verbs/commands.h"

#include <stdio.h>

int command_detach(struct arguments *arguments)
{
	int64_t pid = arguments_number(arguments, "pid", 0);
	struct daemons daemons;
	int code;

	if (!pid)
		return fail(EXIT_USAGE, "from which process? Give --pid PID; `profd detach --help` explains it");
	code = daemons_need(&daemons);
	if (!code)
		code = detach_agent(&daemons, pid);
	daemons_deinit(&daemons);
	if (code)
		return code;
	if (arguments_format(arguments) == FORMAT_JSON) {
		cJSON *object = json_new("detach");

		json_add_pid(object, pid);
		json_print(object);
	} else {
		printf("the agent has left process %lld: no thread, hook or descriptor of it is there. Its library stays in memory, unused.\n",
		       (long long)pid);
	}
	return EXIT_DONE;
}
