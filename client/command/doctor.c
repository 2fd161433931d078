/* doctor.c - `profd doctor`: what can be recorded, and what stands in the way. It only looks. */
#include "client/attach/foresee.h"
#include "client/attach/target.h"
#include "client/doctor/check.h"
#include "client/doctor/driver.h"
#include "client/doctor/inspect.h"
#include "client/doctor/profiler.h"
#include "client/link/collect.h"
#include "client/link/presence.h"
#include "client/process/watched.h"
#include "client/start/install.h"
#include "client/ui/json.h"
#include "client/ui/print.h"
#include "client/ui/text.h"
#include "client/verbs/arguments.h"
#include "client/verbs/commands.h"

#include "proto/events.h"
#include "proto/version.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct column check_columns[] = {
	{"check", "CHECK", COLUMN_TEXT, 0},
	{"result", "RESULT", COLUMN_TEXT, 0},
	{"sentence", "WHAT WAS FOUND", COLUMN_TEXT, COLUMN_WRAP},
};

static const struct column collector_columns[] = {
	{"collector", "COLLECTOR", COLUMN_TEXT, 0},
	{"available", "CAN RECORD", COLUMN_FLAG, 0},
	{"sentence", "WHAT, OR WHY NOT", COLUMN_TEXT, COLUMN_WRAP},
};

static void print_checks(struct table *checks, enum output_format format)
{
	struct screen screen = screen_output();

	if (format == FORMAT_CSV)
		table_csv(checks, stdout, 0);
	else
		table_print(checks, &screen, 0);
}

static int check_daemons(struct table *checks)
{
	struct daemons daemons;
	struct collect collect = {"daemon", need(cJSON_CreateArray())};
	struct failure failure;
	cJSON *request = request_new("status");
	const cJSON *row;
	char text[1024];
	int code = EXIT_DONE;

	daemons_open(&daemons);
	if (!daemons.count) {
		daemons_none(&daemons, &failure);
		doctor_check(checks, "daemon", "failed", failure.message);
		code = EXIT_NO_DAEMON;
	} else {
		daemons_query(&daemons, request, collect_row, &collect, &failure);
		if (failure.error != ERROR_NONE) {
			doctor_check(checks, "daemon", "failed", failure.message);
			code = error_exit_code(failure.error);
		}
	}
	cJSON_ArrayForEach(row, collect.array)
	{
		const char *version = json_text(row, "version");
		const char *socket = json_text(row, "socket");
		char pid[TEXT_FIGURE_BYTES];

		snprintf(text, sizeof text, "%s answers at %.128s (%s; processes: %.0f, captures: %.0f)",
			 cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(row, "user")) ? "your own daemon"
										     : "the system's daemon",
			 socket ? socket : "?", text_pid(pid, (int64_t)json_number(row, "pid", 0)),
			 json_number(row, "processes", 0), json_number(row, "captures", 0));
		doctor_check(checks, "daemon", "ok", text);
		if (version && strcmp(version, PROFD_VERSION) == 0) {
			snprintf(text, sizeof text, "client and daemon are both %.32s", version);
			doctor_check(checks, "versions", "ok", text);
		} else {
			snprintf(
				text, sizeof text,
				"the client is %s, the daemon %.32s; it works, but restart the daemon after an upgrade",
				PROFD_VERSION, version ? version : "?");
			doctor_check(checks, "versions", "warning", text);
		}
	}
	if (daemons.distrusted[0] && daemons.count) {
		snprintf(text, sizeof text,
			 "%s is not to be trusted (it or its folder is another user's, or others can write there), and "
			 "is not used",
			 daemons.distrusted);
		doctor_check(checks, "socket", "warning", text);
	} else if (daemons.count) {
		doctor_check(checks, "socket", "ok",
			     "the socket and its folder belong to one owner, and nobody else can write there");
	}
	cJSON_Delete(collect.array);
	cJSON_Delete(request);
	daemons_deinit(&daemons);
	return code;
}

static int check_install(struct table *checks)
{
	char path[PATH_MAX], text[PATH_MAX + 128];
	int code = EXIT_DONE;

	if (install_agent(path)) {
		snprintf(text, sizeof text, "%s", path);
		doctor_check(checks, "agent", "ok", text);
	} else {
		doctor_check(checks, "agent", "failed",
			     "libprofd_agent.so is not beside this program; name it with PROFD_AGENT");
		code = EXIT_FAILED;
	}
	if (install_daemon(path))
		doctor_check(checks, "profd-daemon", "ok", path);
	else
		doctor_check(checks, "profd-daemon", "warning",
			     "profd-daemon is neither beside this program nor in PATH; `profd daemon` and `profd run "
			     "--daemon` cannot start it");
	return code;
}

static int environment(enum output_format format)
{
	struct table *checks = table_new(COUNTED(check_columns));
	int install = check_install(checks);
	int code = check_daemons(checks);

	inspect_cuda(checks);
	if (format == FORMAT_JSON) {
		cJSON *object = json_new("doctor");

		cJSON_AddItemToObject(object, "checks", table_json(checks, 0));
		json_print(object);
	} else {
		print_checks(checks, format);
	}
	table_free(checks);
	return code ? code : install;
}

static struct table *collector_table(const cJSON *rows)
{
	struct table *table = table_new(COUNTED(collector_columns));
	bool told_cuda = false;
	const cJSON *row;

	cJSON_ArrayForEach(row, rows)
	{
		const char *collector = json_text(row, "collector");

		told_cuda = told_cuda || (collector && strcmp(collector, collector_word(COLLECTOR_CUPTI)) == 0);
		table_add(table);
		for (size_t c = 0; c < sizeof collector_columns / sizeof *collector_columns; c++)
			table_set_member(table, c, row, collector_columns[c].key);
		if (!cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(row, "available")))
			table_mark(table);
	}
	/* A process that was started before an upgrade still has the old agent. */
	if (cJSON_GetArraySize(rows) && !told_cuda) {
		table_add(table);
		table_set_text(table, 0, collector_word(COLLECTOR_CUPTI));
		table_set(table, 1, false);
		table_set_text(table, 2,
			       "the process's agent is of a release that knew no CUDA activity; start it again");
		table_mark(table);
	}
	return table;
}

struct answer {
	struct collect process;
	struct collect collectors;
};

static void take(struct daemon *daemon, const cJSON *row, int fd, void *context)
{
	struct answer *answer = context;

	collect_row(daemon, row, fd, &answer->process);
	collect_row(daemon, row, -1, &answer->collectors);
}

static void print_process(const cJSON *process)
{
	const char *name = json_text(process, "name");
	const char *source = json_text(process, "step_source");
	const char *torch = json_text(process, "torch_version");
	char median[TEXT_FIGURE_BYTES], count[TEXT_FIGURE_BYTES];
	double step = json_number(process, "step_ns", 0);
	char *safe = text_safe(name ? name : "?");

	printf("process %.0f (%s) is registered, has ", json_number(process, "pid", 0), safe);
	if (json_number(process, "step", 0) > 0 && source && strcmp(source, step_source_word(STEP_SOURCE_NONE)) == 0)
		printf("no steps but the %s that captures have counted in it",
		       text_count(count, (int64_t)json_number(process, "step", 0)));
	else if (json_number(process, "step", 0) > 0)
		printf("ended %s steps (told by: %s)", text_count(count, (int64_t)json_number(process, "step", 0)),
		       source ? source : "none");
	else
		printf("shown no steps yet");
	if (step > 0)
		printf(", %s each", text_duration(median, (int64_t)step));
	free(safe);
	safe = text_safe(torch ? torch : "");
	if (*safe)
		printf(", torch %s", safe);
	free(safe);
	puts("\n");
}

struct look {
	int64_t pid;
	int code;
	bool doubtful;
	char sentence[768];
};

static void look(void *pointer)
{
	struct look *look = pointer;
	struct target target;

	look->code = target_open(&target, look->pid, look->sentence, sizeof look->sentence);
	if (!look->code) {
		const char *why, *way = target_way(&target, &why), *obstacle = foresee(&target);

		look->doubtful = obstacle != NULL;
		snprintf(look->sentence, sizeof look->sentence,
			 "`profd attach --pid %lld` brings the agent in while it runs, %s%s%s%s%s",
			 (long long)look->pid, way, why ? "; its own slot for that (PEP 768) is not used: " : "",
			 why ? why : "", obstacle ? "; but as it is now it would be refused: " : "",
			 obstacle ? obstacle : "");
	}
	target_close(&target);
}

/* Could the agent be brought in? By the checks of `profd attach` itself. */
static void check_attach(int64_t pid, struct table *checks)
{
	struct look *look_at = need(calloc(1, sizeof *look_at));

	look_at->pid = pid;
	if (!watched_run(look, look_at, WATCHED_SECONDS)) {
		/* The look goes on, and so has to keep what it writes to. */
		doctor_check(checks, "attach", "failed",
			     "the process keeps whoever reads its memory waiting: nothing can be attached");
		return;
	}
	doctor_check(checks, "attach",
		     look_at->code	 ? "failed"
		     : look_at->doubtful ? "warning"
					 : "ok",
		     look_at->sentence);
	free(look_at);
}

static int process(int64_t pid, enum output_format format)
{
	struct daemons daemons;
	struct answer answer = {{"process", need(cJSON_CreateArray())}, {"collector", need(cJSON_CreateArray())}};
	struct failure failure = {0};
	cJSON *request = request_new("doctor");
	cJSON *object = json_new("doctor");
	struct screen screen = screen_output();
	struct table *checks = table_new(COUNTED(check_columns));
	struct table *collectors;
	const cJSON *one;
	unsigned answered = 0;
	bool registered;
	char copies[2 * PATH_MAX + 256];
	int code = EXIT_DONE;

	need(cJSON_AddNumberToObject(request, "pid", (double)pid));
	daemons_open(&daemons);
	presence_await(&daemons, &pid, 1);
	if (daemons.count)
		answered = daemons_query(&daemons, request, take, &answer, &failure);
	else
		daemons_none(&daemons, &failure);
	one = cJSON_GetArrayItem(answer.process.array, 0);
	registered = one != NULL;
	/* An unregistered process is looked at from outside, as far as its owner allows. */
	if (registered && inspect_copies(pid, copies, sizeof copies))
		doctor_check(checks, "agent", "warning", copies);
	if (registered && json_text(one, "torch_version"))
		doctor_profiler(pid, checks);
	if (!registered) {
		code = error_exit_code(failure.error ? failure.error : ERROR_NO_AGENT);
		if (inspect_process(pid, checks) == -ENOENT && code != EXIT_NO_DAEMON)
			code = EXIT_NO_TARGET;
		else if (presence_is_missing(pid))
			check_attach(pid, checks);
	}
	/* Its agent was asked, and did not answer: the process is stopped, say. */
	if (registered && !answered)
		code = error_exit_code(failure.error);
	collectors = collector_table(answer.collectors.array);
	if (format == FORMAT_JSON) {
		cJSON_AddNumberToObject(object, "pid", (double)pid);
		cJSON_AddBoolToObject(object, "registered", registered);
		cJSON_AddItemToObject(object, "process",
				      registered ? need(cJSON_Duplicate(one, true)) : need(cJSON_CreateNull()));
		cJSON_AddItemToObject(object, "collectors", table_json(collectors, 0));
		cJSON_AddItemToObject(object, "checks", table_json(checks, 0));
		json_print(object);
		object = NULL;
	} else if (registered && format == FORMAT_CSV) {
		table_csv(collectors, stdout, 0);
	} else if (registered) {
		print_process(one);
		if (answered)
			table_print(collectors, &screen, 0);
		if (table_rows(checks)) {
			putchar('\n');
			print_checks(checks, format);
		}
	} else {
		print_checks(checks, format);
	}
	if (!(registered && answered) && failure.error != ERROR_NONE)
		failure_print(&failure);
	else if (!registered)
		fail(code, "the daemon said nothing of process %lld; `profd ps` lists those that are registered",
		     (long long)pid);
	table_free(collectors);
	table_free(checks);
	cJSON_Delete(object);
	cJSON_Delete(request);
	cJSON_Delete(answer.process.array);
	cJSON_Delete(answer.collectors.array);
	daemons_deinit(&daemons);
	return code;
}

int command_doctor(struct arguments *arguments)
{
	enum output_format format = arguments_format(arguments);

	if (arguments_has(arguments, "pid"))
		return process(arguments_number(arguments, "pid", 0), format);
	return environment(format);
}
