/* attach.c - `profd attach`: brings the agent into a process that was started without it. */
#include "client/attach/attach.h"
#include "client/doctor/root.h"
#include "client/link/collect.h"
#include "client/link/connection.h"
#include "client/start/install.h"
#include "client/ui/clock.h"
#include "client/ui/failure.h"
#include "client/ui/json.h"
#include "client/ui/text.h"
#include "client/verbs/arguments.h"
#include "client/verbs/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATIENCE_NS 10000000000ll
#define LIBRARY_MOST (64u << 20)

/* The agent's library as bytes, to be freed; NULL after a sentence. */
static void *read_library(size_t *bytes)
{
	char path[PATH_MAX];
	struct stat facts;
	void *library = NULL;
	int fd = install_agent(path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	if (fd >= 0 && fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_size <= LIBRARY_MOST) {
		*bytes = (size_t)facts.st_size;
		library = need(malloc(*bytes + 1));
		if (read(fd, library, *bytes) != (ssize_t)*bytes) {
			free(library);
			library = NULL;
		}
	}
	if (fd >= 0)
		close(fd);
	if (!library)
		fail(EXIT_FAILED,
		     "libprofd_agent.so is not beside this program, or cannot be read; name it with PROFD_AGENT");
	return library;
}

/* A daemon whose socket the process sees as well; NULL after a sentence. */
static const char *reachable(const struct daemons *daemons, int64_t pid)
{
	for (unsigned i = 0; i < daemons->count; i++)
		if (inspect_kind(pid, daemons->list[i].path, S_IFSOCK) == 1)
			return daemons->list[i].path;
	fail(EXIT_NO_DAEMON,
	     "process %lld does not see the daemon's socket %s, as it lives in another root or container: mount it there",
	     (long long)pid, daemons->list[0].path);
	return NULL;
}

static bool registered(struct daemons *daemons, int64_t pid)
{
	cJSON *request = request_new("ps");
	struct collect collect = {"process", need(cJSON_CreateArray())};
	struct failure failure = {0};

	need(cJSON_AddNumberToObject(request, "pid", (double)pid));
	daemons_query(daemons, request, collect_row, &collect, &failure);
	bool found = cJSON_GetArraySize(collect.array) > 0;
	cJSON_Delete(collect.array);
	cJSON_Delete(request);
	return found;
}

/* The agent begins in a thread of its own, which a busy machine lets wait. */
static bool await_registration(struct daemons *daemons, int64_t pid, int64_t patience)
{
	const struct timespec nap = {.tv_nsec = 20000000};
	int64_t began = clock_now();

	while (!registered(daemons, pid)) {
		if (clock_now() - began > patience || (kill((pid_t)pid, 0) && errno == ESRCH))
			return false;
		nanosleep(&nap, NULL);
	}
	return true;
}

static void tell(int64_t pid, const struct attachment *done, enum output_format format)
{
	char stood[TEXT_FIGURE_BYTES], loaded[TEXT_FIGURE_BYTES];

	if (format == FORMAT_JSON) {
		cJSON *object = json_new("attach");

		json_add_pid(object, pid);
		json_add_text(object, "way", done->way);
		cJSON_AddNumberToObject(object, "tid", (double)done->tid);
		cJSON_AddNumberToObject(object, "stood_ns", (double)done->stood_ns);
		cJSON_AddNumberToObject(object, "loaded_ns", (double)done->loaded_ns);
		json_print(object);
		return;
	}
	printf("process %lld has the agent now. Its thread %lld stood still for %s; the agent was there %s later.\n"
	       "Steps are counted from now on. Next: profd trigger --pid %lld\n",
	       (long long)pid, (long long)done->tid, text_duration(stood, done->stood_ns),
	       text_duration(loaded, done->loaded_ns), (long long)pid);
}

static int attach_to(struct daemons *daemons, int64_t pid, int64_t patience, enum output_format format)
{
	char sentence[512];
	struct attachment done;
	struct target target;
	size_t bytes;
	const char *socket;
	int code;

	code = target_open(&target, pid, sentence, sizeof sentence);
	if (code) {
		target_close(&target);
		return fail(code, "%s", sentence);
	}
	socket = reachable(daemons, pid);
	void *library = socket ? read_library(&bytes) : NULL;
	code = !socket	  ? EXIT_NO_DAEMON
	       : !library ? EXIT_FAILED
			  : attach(&target, library, bytes, socket, patience, &done, sentence, sizeof sentence);
	if (code && library)
		fail(code, "%s", sentence);
	free(library);
	target_close(&target);
	if (code)
		return code;
	bool there = await_registration(daemons, pid, patience);
	if (!there && kill((pid_t)pid, 0) && errno == ESRCH)
		return fail(EXIT_NO_TARGET, "process %lld has ended", (long long)pid);
	if (!there)
		return fail(
			EXIT_FAILED,
			"process %lld has the agent now, but it has not registered: `profd doctor --pid %lld` says more",
			(long long)pid, (long long)pid);
	tell(pid, &done, format);
	return EXIT_DONE;
}

int command_attach(struct arguments *arguments)
{
	enum output_format format = arguments_format(arguments);
	int64_t pid = arguments_number(arguments, "pid", 0);
	struct daemons daemons;
	int code;

	if (!pid)
		return fail(EXIT_USAGE, "to which process? Give --pid PID; `profd attach --help` explains it");
	code = daemons_need(&daemons);
	if (!code)
		code = attach_to(&daemons, pid, arguments_number(arguments, "timeout", PATIENCE_NS), format);
	daemons_deinit(&daemons);
	return code;
}
