/* run.c - `profd run -- COMMAND`: sets the environment and becomes the command. */
#include "client/link/connection.h"
#include "client/start/inject.h"
#include "client/start/install.h"
#include "client/ui/json.h"
#include "client/ui/text.h"
#include "client/verbs/arguments.h"
#include "client/verbs/commands.h"
#include "trigger_request.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define START_WAIT_MS 5000

/* The log of a daemon that is started here: beside its socket. */
static void log_path(char *path, size_t bytes)
{
	char socket[SOCKET_PATH_BYTES];
	struct stat found;

	path[0] = 0;
	for (unsigned i = getenv("PROFD_SOCKET") && *getenv("PROFD_SOCKET") ? 0 : 1;
	     socket_candidate(i, socket) != -ENOENT; i++) {
		char *slash = strrchr(socket, '/');

		if (!slash)
			continue;
		*slash = 0;
		if (stat(socket, &found) == 0 && found.st_uid == geteuid()) {
			snprintf(path, bytes, "%s/daemon.log", socket);
			return;
		}
	}
}

/* The grandchild: a process in a session of its own, which holds no file of this one open. */
static void become_daemon(const char *daemon, const char *log)
{
	int null = open("/dev/null", O_RDWR);
	int file = log[0] ? open(log, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600) : -1;
	char *const words[] = {"profd-daemon", "--user", NULL};

	if (null < 0)
		_exit(126);
	dup2(null, STDIN_FILENO);
	dup2(file >= 0 ? file : null, STDOUT_FILENO);
	dup2(file >= 0 ? file : null, STDERR_FILENO);
	closefrom(3);
	/* Its working folder must not keep a file system from being unmounted. */
	if (chdir("/") < 0)
		_exit(126);
	execv(daemon, words);
	_exit(127);
}

static bool answers(void)
{
	struct daemons daemons;
	bool any;

	daemons_open(&daemons);
	any = daemons.count > 0;
	daemons_deinit(&daemons);
	return any;
}

/* Starts a daemon of the user's own and waits until it answers. The command starts either way. */
static void start_daemon(void)
{
	char daemon[PATH_MAX], log[SOCKET_PATH_BYTES + 16];
	pid_t child;

	if (!install_daemon(daemon)) {
		note("no daemon was started: profd-daemon is neither beside this program nor in PATH; the command "
		     "runs all the same");
		return;
	}
	log_path(log, sizeof log);
	child = fork();
	if (child == 0) {
		setsid();
		if (fork() == 0)
			become_daemon(daemon, log);
		_exit(0);
	}
	if (child < 0) {
		note("no daemon was started: %s; the command runs all the same", strerror(errno));
		return;
	}
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	for (int waited = 0; waited < START_WAIT_MS; waited += 20) {
		struct timespec pause = {.tv_nsec = 20000000};

		if (answers()) {
			note("started a daemon of your own; it stays when this command ends, and writes to %s",
			     log[0] ? log : "/dev/null");
			return;
		}
		nanosleep(&pause, NULL);
	}
	note("the daemon that was started does not answer; it says why in %s; the command runs all the same",
	     log[0] ? log : "/dev/null");
}

static bool asked(void)
{
	char line[16];

	fputs("profd: no daemon answers, so the command could not be triggered. Start one of your own? [y/N] ", stderr);
	fflush(stderr);
	if (!fgets(line, sizeof line, stdin))
		return false;
	return line[0] == 'y' || line[0] == 'Y';
}

static void see_to_daemon(const struct arguments *arguments)
{
	if (answers())
		return;
	if (arguments_has(arguments, "daemon")) {
		start_daemon();
		return;
	}
	/* A program in the background that reads from the terminal is stopped. */
	if (!arguments_has(arguments, "no-daemon-start") && isatty(STDERR_FILENO) &&
	    tcgetpgrp(STDIN_FILENO) == getpgrp()) {
		if (asked())
			start_daemon();
		return;
	}
	note("no daemon answers yet; start one with `profd daemon --user`, now or later: the command's agent finds it");
}

static void take_trigger(struct daemon *daemon, const cJSON *row, int fd, void *context)
{
	char **id = context;
	const char *told = json_text(row, "trigger_id");

	(void)daemon;
	(void)fd;
	if (!*id && reply_is_row(row, "accepted") && told)
		*id = text_safe(told);
}

/* Before the command starts, as its steps count from the first. It starts either way. */
static void ask_to_record(const cJSON *request)
{
	struct daemons daemons;
	struct failure failure = {0};
	char *id = NULL;

	daemons_open(&daemons);
	if (daemons.count == 0)
		note("nothing will be recorded, as no daemon answers; the command runs all the same");
	/* The command's agent takes the first daemon that answers, too. */
	else if (!daemon_query(&daemons.list[0], request, take_trigger, &id, &failure))
		note("nothing will be recorded: %s; the command runs all the same", failure.message);
	else
		note("a recording is asked for: `profd captures` lists what comes of it, `profd cancel --trigger %s` takes it back",
		     id ? id : "ID");
	free(id);
	daemons_deinit(&daemons);
}

int command_run(struct arguments *arguments)
{
	cJSON *request;
	struct inject plan[INJECT_MAX];
	int count, error;

	if (arguments_has(arguments, "daemon") && arguments_has(arguments, "no-daemon-start"))
		return fail(EXIT_USAGE, "give --daemon or --no-daemon-start, not both");
	request = trigger_request_ahead(arguments);
	if (request && trigger_check(arguments)) {
		cJSON_Delete(request);
		return EXIT_USAGE;
	}
	count = inject_plan(plan, arguments_text(arguments, "name", NULL), arguments_text(arguments, "job", NULL));
	if (count < 0) {
		cJSON_Delete(request);
		return EXIT_FAILED;
	}
	see_to_daemon(arguments);
	if (request)
		ask_to_record(request);
	cJSON_Delete(request);
	for (int i = 0; i < count; i++)
		if (plan[i].value)
			setenv(plan[i].name, plan[i].value, 1);
	inject_deinit(plan, count);
	fflush(NULL);
	execvp(arguments->words[0], arguments->words);
	error = errno;
	return fail(error == ENOENT ? 127 : 126, "%s cannot be run: %s", arguments->words[0], strerror(error));
}
