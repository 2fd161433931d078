/* bring.c - see bring.h. */
#include "bring.h"

#include "detach.h"
#include "halt.h"

#include "client/doctor/root.h"
#include "client/link/collect.h"
#include "client/link/forked.h"
#include "client/link/presence.h"
#include "client/process/task.h"
#include "client/process/watched.h"
#include "client/start/install.h"
#include "client/ui/clock.h"
#include "client/ui/json.h"
#include "client/ui/text.h"
#include "worker.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LIBRARY_MOST (64u << 20)
/* How long the first step is waited for. A process that shows none by then is refused by the daemon, with its reason. */
#define FIRST_STEP_NS 60000000000ll
/* Waiting for less than this needs no word. */
#define SHORT_NS 3000000000ll

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

/* The row of `ps`, to be deleted; NULL where the process is not registered. */
static cJSON *registered(struct daemons *daemons, int64_t pid)
{
	cJSON *request = request_new("ps"), *row;
	struct collect collect = {"process", need(cJSON_CreateArray())};
	struct failure failure = {0};

	need(cJSON_AddNumberToObject(request, "pid", (double)pid));
	daemons_query(daemons, request, collect_row, &collect, &failure);
	row = cJSON_DetachItemFromArray(collect.array, 0);
	cJSON_Delete(collect.array);
	cJSON_Delete(request);
	return row;
}

static bool is_registered(struct daemons *daemons, int64_t pid)
{
	cJSON *row = registered(daemons, pid);
	bool is = row != NULL;

	cJSON_Delete(row);
	return is;
}

/* A helper of others shows no steps itself. A forked rank looks like a helper until its first step, if its parent steps
 * as well. */
static bool has_steps(struct daemons *daemons, int64_t pid)
{
	cJSON *row = registered(daemons, pid);
	const char *source = json_text(row, "step_source");
	bool has = (json_text(row, "role") && !forked_since_exec(pid)) || (source && strcmp(source, "none") != 0);

	cJSON_Delete(row);
	return has;
}

/* False: the process has ended, the time is up, or Ctrl-C came where that counts (`halts`). The agent begins in a thread of its own, which a busy
 * machine lets wait. */
static bool await(struct daemons *daemons, int64_t pid, bool (*is_it)(struct daemons *, int64_t), int64_t patience,
		  bool halts)
{
	const struct timespec nap = {.tv_nsec = 20000000};
	int64_t began = clock_now();

	while (!is_it(daemons, pid)) {
		if (clock_now() - began > patience || process_ends(pid) || (halts && halt_asked()))
			return false;
		nanosleep(&nap, NULL);
	}
	return true;
}

struct goal {
	int64_t pid;
	struct target target;
	const char *socket;
	bool open;
	bool left; /* a thread is left that works on it */
	bool late; /* the agent is loaded, and had not registered in time */
	int code;  /* of target_open or attach, with its sentence */
	char sentence[512];
};

/* What attach() is given, on a thread of its own. */
struct attempt {
	struct goal *goal;
	const void *agent; /* its file, as it is read */
	size_t bytes;
	int64_t patience;
	struct attachment done;
};

static void open_goal(void *pointer)
{
	struct goal *goal = pointer;

	goal->code = target_open(&goal->target, goal->pid, goal->sentence, sizeof goal->sentence);
}

struct sight {
	const struct daemons *daemons;
	int64_t pid;
};

/* The number, from 1 on, of the first daemon whose socket the process sees; 0: none. */
static int see_socket(const void *pointer)
{
	const struct sight *sight = pointer;

	for (unsigned i = 0; i < sight->daemons->count && i < 255; i++)
		if (inspect_kind(sight->pid, sight->daemons->list[i].path, S_IFSOCK) == 1)
			return (int)i + 1;
	return 0;
}

/* A daemon whose socket the process sees as well. What is mounted there is the process's. */
static int find_socket(const struct daemons *daemons, struct goal *goal)
{
	long long pid = goal->pid;
	int seen = watched_apart(see_socket, &(struct sight){daemons, pid}, WATCHED_SECONDS);

	if (seen > 0)
		goal->socket = daemons->list[seen - 1].path;
	if (goal->socket)
		return EXIT_DONE;
	/* One that ends has lost its root. */
	if (target_ends(&goal->target))
		return fail(EXIT_NO_TARGET, "process %lld has ended", pid);
	if (seen < 0)
		return fail(
			EXIT_TIMED_OUT,
			"process %lld sees a file system that does not answer: whether the daemon's socket %s is there is not known",
			pid, daemons->list[0].path);
	return fail(
		EXIT_NO_DAEMON,
		"process %lld does not see the daemon's socket %s, as it lives in another root or container: mount it there",
		pid, daemons->list[0].path);
}

#define RANK_BYTES 32

/* " (rank 3)", or nothing where that is not known. */
static const char *rank_of(const struct bring *bring, int64_t pid, char text[RANK_BYTES])
{
	*text = 0;
	for (size_t i = 0; i < bring->found_count; i++)
		if (bring->found[i].pid == pid && bring->found[i].rank >= 0)
			snprintf(text, RANK_BYTES, " (rank %d)", bring->found[i].rank);
	return text;
}

/* Tells that one of several processes does not get the agent. */
static void tell_none(const struct bring *bring, int64_t pid, size_t count)
{
	char rank[RANK_BYTES];

	if (count > 1)
		note("process %lld%s is one of %zu that get the agent together, or not at all: the others are without it",
		     (long long)pid, rank_of(bring, pid, rank), count);
}

static int look_at(const struct bring *bring, struct goal *goal)
{
	watched_or_end(goal->pid, open_goal, goal);
	goal->open = true;
	return goal->code ? fail(goal->code, "%s", goal->sentence) : find_socket(bring->daemons, goal);
}

/* Untouched so far. */
static int look_at_all(const struct bring *bring, const int64_t *pids, size_t count, struct goal *goals)
{
	int code = EXIT_DONE;

	for (size_t i = 0; i < count && !code; i++) {
		goals[i].pid = pids[i];
		code = look_at(bring, &goals[i]);
		if (code)
			tell_none(bring, pids[i], count);
	}
	return code;
}

/* It goes on in a thread of its own meanwhile. */
static void tell_waiting(void *pointer)
{
	const struct attempt *attempt = pointer;
	const char *waits_for = attempt->done.waits_for;

	if (waits_for)
		note("process %lld gets the agent: waiting for %s; Ctrl-C takes back what was begun",
		     (long long)attempt->goal->pid, waits_for);
}

static void attempt(void *pointer)
{
	struct attempt *attempt = pointer;
	struct goal *goal = attempt->goal;

	goal->code = attach(&goal->target, attempt->agent, attempt->bytes, goal->socket, attempt->patience,
			    &attempt->done, goal->sentence, sizeof goal->sentence);
}

/* A hostile process may keep whoever writes into it waiting, too. And a thread that could not be stopped in time is let go by the kernel
 * once the thread ends that wanted to trace it. */
static int attach_in_time(struct goal *goal, const struct attempt *how, struct attachment *done)
{
	struct attempt *copy = need(malloc(sizeof *copy));
	sigset_t child, before;

	*copy = *how;
	copy->goal = goal;
	/* It waits for these, and no other thread may take them. */
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	pthread_sigmask(SIG_BLOCK, &child, &before);
	goal->left = !watched_run_told(attempt, copy, WATCHED_SECONDS + (unsigned)(how->patience / 1000000000),
				       tell_waiting);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (goal->left)
		return fail(
			EXIT_TIMED_OUT,
			"process %lld keeps whoever reads its memory waiting: whether it has the agent is not known",
			(long long)goal->pid);
	*done = copy->done;
	free(copy);
	return goal->code ? fail(goal->code, "%s", goal->sentence) : EXIT_DONE;
}

/* The daemon knows from the kernel who we are, and notes it. What it says of the process itself is looked at elsewhere; one of an earlier
 * release knows no such request. */
static int announce(struct daemons *daemons, const struct goal *goal)
{
	cJSON *request = request_new("attach");
	struct collect none = {"", need(cJSON_CreateArray())};
	struct failure failure = {0};

	need(cJSON_AddNumberToObject(request, "pid", (double)goal->pid));
	for (unsigned i = 0; i < daemons->count; i++)
		if (strcmp(daemons->list[i].path, goal->socket) == 0)
			daemon_query(&daemons->list[i], request, collect_row, &none, &failure);
	cJSON_Delete(none.array);
	cJSON_Delete(request);
	return failure.error == ERROR_NOT_YOURS ? failure_print(&failure) : EXIT_DONE;
}

static int attach_one(const struct bring *bring, struct goal *goal, const struct attempt *how, struct attachment *done)
{
	long long pid = goal->target.pid;
	int code = announce(bring->daemons, goal);

	code = code ? code : attach_in_time(goal, how, done);
	if (code)
		return code;
	if (await(bring->daemons, pid, is_registered, bring->patience, false))
		return EXIT_DONE;
	if (process_ends(pid))
		return fail(EXIT_NO_TARGET, "process %lld has ended", pid);
	goal->late = true;
	return fail(EXIT_FAILED,
		    "process %lld has the agent now, but it has not registered: `profd doctor --pid %lld` says more",
		    pid, pid);
}

/* One failed that could not be refused beforehand: the agent is taken out of those before it. */
static bool take_back(const struct bring *bring, const int64_t *pids, size_t count)
{
	char rank[RANK_BYTES];
	bool all = true;

	for (size_t i = 0; i < count; i++) {
		if (detach_agent(bring->daemons, pids[i]) == EXIT_DONE)
			note("process %lld%s had been given the agent before that; it was taken out of it again",
			     (long long)pids[i], rank_of(bring, pids[i], rank));
		else
			all = process_ends(pids[i]) && all;
	}
	return all;
}

/* One of several whose agent had not registered in time: it is waited for once more, as it is to be without it like the others. */
static void take_back_late(const struct bring *bring, int64_t pid)
{
	char rank[RANK_BYTES];
	bool came = await(bring->daemons, pid, is_registered, bring->patience, false);

	if (came && detach_agent(bring->daemons, pid) == EXIT_DONE)
		note("the agent of process %lld%s has registered after all; it was taken out of it again",
		     (long long)pid, rank_of(bring, pid, rank));
	else if (!process_ends(pid))
		note("process %lld%s keeps the agent: once it has registered, `profd detach --pid %lld` takes it out",
		     (long long)pid, rank_of(bring, pid, rank), (long long)pid);
}

/* One after the other. Whoever is interrupted wants none of them to have it. */
static int attach_all(const struct bring *bring, const int64_t *pids, size_t count, struct goal *goals,
		      const struct attempt *how, struct attachment *done)
{
	size_t have = 0;
	int code = EXIT_DONE;

	halt_begin();
	while (have < count && !code) {
		code = attach_one(bring, &goals[have], how, &done[have]);
		have += !code;
		if (!code && halt_asked())
			code = fail(EXIT_CANCELLED, "interrupted");
	}
	if (code && take_back(bring, pids, have) && code != EXIT_CANCELLED)
		tell_none(bring, pids[have], count);
	if (code && count > 1 && have < count && goals[have].late)
		take_back_late(bring, pids[have]);
	halt_end();
	return code;
}

int bring_agents(const struct bring *bring, const int64_t *pids, size_t count, struct attachment *done)
{
	struct goal *goals = need(calloc(count + 1, sizeof *goals));
	int code = look_at_all(bring, pids, count, goals);
	size_t bytes = 0;
	void *library = code ? NULL : read_library(&bytes);
	struct attempt how = {.agent = library, .bytes = bytes, .patience = bring->patience};
	bool left = false;

	if (!code)
		code = library ? attach_all(bring, pids, count, goals, &how, done) : EXIT_FAILED;
	for (size_t i = 0; i < count; i++)
		left = left || goals[i].left;
	/* What a thread still works on stays. */
	for (size_t i = 0; i < count && !left; i++)
		if (goals[i].open)
			target_close(&goals[i].target);
	if (left)
		return code;
	free(goals);
	free(library);
	return code;
}

static void tell(int64_t pid, const struct attachment *done)
{
	char stood[TEXT_FIGURE_BYTES];

	if (!done->tid)
		note("process %lld has the agent now; nothing was stopped for it", (long long)pid);
	else
		note("process %lld has the agent now; its thread %lld stood still for %s", (long long)pid,
		     (long long)done->tid, text_duration(stood, done->stood_ns));
}

/* Whoever is interrupted while steps are waited for wants none of them to have the agent, either. */
static int await_steps(const struct bring *bring, const int64_t *pids, size_t count)
{
	int64_t until = clock_now() + FIRST_STEP_NS;
	bool halted;

	halt_begin();
	for (size_t i = 0; i < count; i++) {
		if (await(bring->daemons, pids[i], has_steps, SHORT_NS, true) || halt_asked() || process_ends(pids[i]))
			continue;
		note("waiting for the first step of process %lld, a minute at most; Ctrl-C takes the agent out again",
		     (long long)pids[i]);
		await(bring->daemons, pids[i], has_steps, until - clock_now(), true);
	}
	halted = halt_asked();
	if (halted) {
		fail(EXIT_CANCELLED, "interrupted");
		take_back(bring, pids, count);
	}
	halt_end();
	return halted ? EXIT_CANCELLED : EXIT_DONE;
}

/* A process that shows no steps by itself would be waited for in vain. */
static int refuse_workers(const int64_t *pids, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		long long pid = pids[i], parent = worker_of(pids[i]);

		if (parent)
			return fail(
				EXIT_NO_STEPS,
				"process %lld is a worker of a DataLoader, and makes no steps: it loads the data of process %lld, whose "
				"steps `--pid %lld` records; --duration 2s records a window of time of a worker, and `profd stack --pid "
				"%lld --duration 2s` shows where its time goes",
				pid, parent, parent, pid);
	}
	return EXIT_DONE;
}

int bring_missing(const struct bring *bring, const int64_t *pids, size_t count, bool steps)
{
	int64_t *without = need(calloc(count + 1, sizeof *without));
	struct attachment *done = need(calloc(count + 1, sizeof *done));
	size_t missing = 0;
	int code;

	for (size_t i = 0; i < count; i++)
		if (presence_is_missing(pids[i]) && !is_registered(bring->daemons, pids[i]))
			without[missing++] = pids[i];
	code = steps ? refuse_workers(without, missing) : EXIT_DONE;
	code = code || !missing ? code : bring_agents(bring, without, missing, done);
	for (size_t i = 0; i < missing && !code; i++)
		tell(without[i], &done[i]);
	if (!code && steps)
		code = await_steps(bring, without, missing);
	free(without);
	free(done);
	return code;
}

int bring_found(const struct bring *bring, const char *job, const char *name, bool steps)
{
	size_t count;
	struct found_process *found = find_unprepared(job, name, &count);
	const struct bring with = {bring->daemons, bring->patience, found, count};
	int64_t *pids = need(calloc(count + 1, sizeof *pids));
	int code;

	for (size_t i = 0; i < count; i++)
		pids[i] = found[i].pid;
	code = bring_missing(&with, pids, count, steps);
	free(pids);
	free(found);
	return code;
}
