/* asking.c - `profd asking`: prints what the daemon answers to the op of this word. The test of the recipes. */
#include "client/link/connection.h"
#include "client/ui/json.h"
#include "client/verbs/commands.h"

#include <stdio.h>
#include <unistd.h>

static void print_row(struct daemon *daemon, const cJSON *row, int fd, void *context)
{
	const char *text = reply_is_row(row, "asking") ? json_text(row, "text") : NULL;

	(void)daemon, (void)context;
	if (fd >= 0)
		close(fd);
	if (text)
		puts(text);
}

int command_asking(struct arguments *arguments)
{
	struct daemons daemons;
	struct failure failure = {0};
	cJSON *request;
	int code = daemons_need(&daemons);

	(void)arguments;
	if (code)
		return code;
	request = request_new("asking");
	if (!daemons_query(&daemons, request, print_row, NULL, &failure))
		code = failure_print(&failure);
	cJSON_Delete(request);
	daemons_deinit(&daemons);
	return code;
}
