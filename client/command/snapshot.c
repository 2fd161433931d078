/* snapshot.c - `profd snapshot`: a short recording of every job that is picked, for cron and timers. What is picked and
 * how it is told stands in snapshot.h, one recording in flight.h. One thread; SIGINT is blocked but while it waits in
 * ppoll. */
#include "client/link/collect.h"
#include "client/link/presence.h"
#include "client/reader/capture.h"
#include "client/report/summary.h"
#include "client/snapshot/flight.h"
#include "client/snapshot/lock.h"
#include "client/snapshot/outcome.h"
#include "client/snapshot/snapshot.h"
#include "client/ui/clock.h"
#include "client/ui/json.h"
#include "client/ui/progress.h"
#include "client/ui/text.h"
#include "client/verbs/arguments.h"
#include "client/verbs/commands.h"
#include "snapshot_print.h"

#include "proto/limits.h"
#include "proto/schedule.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define PARALLEL_MOST 64
/* At most this many earlier snapshots are compared with, the newest ones. */
#define HISTORY_MOST 20
/* An answer of `ps` is used for this long. */
#define FRESH_NS 500000000ll
#define REDRAW_NS 1000000000ll
/* How long recordings that were cancelled may take to come in. */
#define CANCEL_NS 10000000000ll

static volatile sig_atomic_t interrupts;

static void interrupted(int signal)
{
	(void)signal;
	interrupts++;
}

struct run {
	const struct arguments *arguments;
	struct daemons daemons;
	struct flight_options options;
	enum output_format format;
	bool quiet;
	int64_t keep;  /* 0 = all */
	double factor; /* 0 = record whatever the step time is */

	struct unit *units;
	size_t count, next, done;
	cJSON *history; /* captures with the label, oldest first; NULL where they are not wanted */
	cJSON *processes[DAEMONS_MAX];
	int64_t fresh[DAEMONS_MAX]; /* when they were asked for */

	struct flight flights[PARALLEL_MOST];
	size_t flying, parallel;
	int64_t began;
	bool cancelled;
};

/* --- the command line --- */

static int check(const struct arguments *a, struct run *run)
{
	struct schedule schedule = {
		.warmup = (uint32_t)run->options.warmup, .active = (uint32_t)run->options.steps, .repeat = 1};
	const char *factor = arguments_text(a, "if-slower-than", NULL);
	const char *ranks = arguments_text(a, "ranks", NULL);
	const char *refusal;

	if (!a->pid_count && !arguments_has(a, "all") && !arguments_has(a, "name") && !arguments_has(a, "user") &&
	    !arguments_has(a, "job"))
		return fail(EXIT_USAGE, "a snapshot of what? Give --all, --name GLOB, --user NAME, --job JOB or --pid "
					"PID; `profd ps` lists the processes");
	if (arguments_has(a, "all") &&
	    (a->pid_count || arguments_has(a, "name") || arguments_has(a, "user") || arguments_has(a, "job")))
		return fail(EXIT_USAGE, "--all means every process; it does not go with --name, --user, --job or "
					"--pid");
	if (arguments_has(a, "ranks") && arguments_has(a, "one-per-job"))
		return fail(EXIT_USAGE, "give --ranks or --one-per-job, not both");
	refusal = ranks ? snapshot_ranks_refusal(ranks) : NULL;
	if (refusal)
		return fail(EXIT_USAGE, "--ranks %s: %s", ranks, refusal);
	if (!*run->options.label)
		return fail(EXIT_USAGE, "a snapshot needs a label, by which --keep and `profd history` know it");
	if (factor && !series_parse_factor(factor, &run->factor))
		return fail(EXIT_USAGE, "--if-slower-than %s: a factor of 1 or more is wanted, such as 1.2x", factor);
	if (factor && run->keep && run->keep < SNAPSHOT_HISTORY)
		return fail(EXIT_USAGE, "--if-slower-than compares with %d snapshots or more: give --keep %d or more",
			    SNAPSHOT_HISTORY, SNAPSHOT_HISTORY);
	if (run->quiet && run->format != FORMAT_TABLE)
		return fail(EXIT_USAGE, "--quiet leaves lines out of the table; it does not go with --format");
	refusal = schedule_check(&schedule);
	return refusal ? fail(EXIT_USAGE, "%s", refusal) : EXIT_DONE;
}

/* --- picking --- */

static int not_registered(const struct run *run, const cJSON *processes)
{
	int code = EXIT_DONE;

	for (size_t i = 0; i < run->arguments->pid_count; i++) {
		const cJSON *process;
		bool found = false;

		cJSON_ArrayForEach(process, processes)
		{
			found = found || json_number(process, "pid", 0) == (double)run->arguments->pids[i];
		}
		if (!found && !arguments_has(run->arguments, "allow-none"))
			code = fail(EXIT_NO_TARGET,
				    "process %lld is not registered; `profd doctor --pid %lld` says why",
				    (long long)run->arguments->pids[i], (long long)run->arguments->pids[i]);
	}
	return code;
}

static int none_matched(const struct run *run, size_t fast)
{
	char least[TEXT_FIGURE_BYTES];

	if (arguments_has(run->arguments, "allow-none"))
		return EXIT_DONE;
	if (fast)
		return fail(EXIT_NO_TARGET,
			    "nothing to take a snapshot of: %zu process%s would match but step%s in less than %s; "
			    "--allow-none makes that no error",
			    fast, fast == 1 ? "" : "es", fast == 1 ? "s" : "",
			    text_duration(least, arguments_number(run->arguments, "min-step-time", 0)));
	return fail(EXIT_NO_TARGET, "nothing to take a snapshot of: no registered process matches; `profd ps` lists "
				    "them, --allow-none makes that no error");
}

static int pick(struct run *run)
{
	const struct arguments *a = run->arguments;
	struct criteria criteria = {
		.name = arguments_text(a, "name", NULL),
		.user = arguments_text(a, "user", NULL),
		.job = arguments_text(a, "job", NULL),
		.pids = a->pids,
		.pid_count = a->pid_count,
		.least_step = arguments_number(a, "min-step-time", 0),
		.ranks = arguments_text(a, "ranks", NULL),
		.one_per_job = arguments_has(a, "one-per-job"),
	};
	const char *paths[DAEMONS_MAX];
	cJSON *request = request_new("ps"), *processes;
	size_t fast = 0;
	int code, missing = EXIT_DONE;

	presence_await(&run->daemons, a->pids, a->pid_count);
	code = collect_rows(&run->daemons, request, "process", &processes);

	for (unsigned i = 0; i < run->daemons.count; i++)
		paths[i] = run->daemons.list[i].path;
	if (code == EXIT_DONE) {
		/* A process without a pid here lives outside of this container. A run of snapshots out there records
		 * it. */
		for (int i = cJSON_GetArraySize(processes); i > 0; i--)
			if (json_number(cJSON_GetArrayItem(processes, i - 1), "pid", 0) <= 0)
				cJSON_DeleteItemFromArray(processes, i - 1);
		run->units = snapshot_pick(processes, paths, run->daemons.count, &criteria, &run->count, &fast);
		missing = not_registered(run, processes);
		if (run->count == 0 && missing == EXIT_DONE)
			code = none_matched(run, fast);
	}
	cJSON_Delete(processes);
	cJSON_Delete(request);
	return code ? code : missing;
}

static double random_part(void)
{
	uint32_t bits = 0;

	if (getrandom(&bits, sizeof bits, GRND_NONBLOCK) != sizeof bits)
		bits = (uint32_t)clock_now();
	return (double)bits / 4294967296.0;
}

/* --- a unit's turn --- */

static void skip(struct member *member, const char *word, const char *why)
{
	member->outcome = OUTCOME_SKIPPED;
	snprintf(member->word, sizeof member->word, "%s", word);
	snprintf(member->why, sizeof member->why, "%s", why);
}

/* The daemon's processes as they are now, or were half a second ago. NULL with *failure filled. */
static const cJSON *processes_now(struct run *run, unsigned daemon, struct failure *failure)
{
	struct collect collect = {"process", NULL};
	cJSON *request;

	*failure = (struct failure){0};
	if (run->processes[daemon] && clock_now() - run->fresh[daemon] < FRESH_NS)
		return run->processes[daemon];
	cJSON_Delete(run->processes[daemon]);
	run->processes[daemon] = NULL;
	request = request_new("ps");
	collect.array = need(cJSON_CreateArray());
	if (daemon_query(&run->daemons.list[daemon], request, collect_row, &collect, failure)) {
		run->processes[daemon] = collect.array;
		run->fresh[daemon] = clock_now();
	} else {
		cJSON_Delete(collect.array);
	}
	cJSON_Delete(request);
	return run->processes[daemon];
}

/* Takes over the newest state of a member's process, and skips it where a recording makes no sense now. */
static void look(struct run *run, struct member *member, const cJSON *processes)
{
	const char *state, *capture, *source;
	char ago_text[TEXT_FIGURE_BYTES], step_text[TEXT_FIGURE_BYTES], text[160];
	const cJSON *process, *now = NULL;
	int64_t step, ago, wanted = run->options.warmup + run->options.steps;
	struct timespec clock;

	if (member->pid <= 0) {
		skip(member, "outside", "lives outside of this pid namespace (a container's): ask from there");
		return;
	}
	cJSON_ArrayForEach(process, processes)
	{
		if (json_number(process, "pid", 0) == (double)member->pid)
			now = process;
	}
	if (!now) {
		skip(member, error_word(ERROR_GONE), "has exited");
		return;
	}
	cJSON_Delete(member->process);
	member->process = need(cJSON_Duplicate(now, true));
	state = json_text(now, "state");
	capture = json_text(now, "capture_id");
	source = json_text(now, "step_source");
	step = (int64_t)json_number(now, "step_ns", 0);
	member->idle_step = step;
	clock_gettime(CLOCK_REALTIME, &clock);
	if (state && strcmp(state, "idle") != 0) {
		snprintf(text, sizeof text, "is being recorded%s%.40s%s", capture ? " (capture " : "",
			 capture ? capture : "", capture ? ")" : "");
		skip(member, error_word(ERROR_BUSY), text);
	} else if (!source || strcmp(source, "none") == 0) {
		skip(member, error_word(ERROR_NO_STEPS), "has shown no steps yet");
	} else if (snapshot_is_stalled(json_text(now, "last_step_at"), step,
				       (int64_t)clock.tv_sec * 1000000000 + clock.tv_nsec, &ago)) {
		snprintf(text, sizeof text, "has not stepped for %s", text_duration(ago_text, ago));
		skip(member, "stalled", text);
	} else if (run->options.timeout && step > 0 && step > run->options.timeout / (wanted + 1)) {
		snprintf(text, sizeof text, "steps in %s, of which %lld do not fit into --timeout",
			 text_duration(step_text, step), (long long)wanted);
		skip(member, "slow", text);
	}
}

/* Fills what the member's step time is compared with. */
static void recall(struct run *run, const struct unit *unit, struct member *member)
{
	struct daemons only = {.list = {run->daemons.list[unit->daemon]}, .count = 1};
	struct who who = who_of(member->process, false);
	double values[HISTORY_MOST];
	size_t n = 0;

	if (member->by_pid || series_needs_pid(run->history, &who))
		who = who_of(member->process, true);
	for (int i = cJSON_GetArraySize(run->history); i > 0 && n < HISTORY_MOST; i--) {
		const cJSON *capture = cJSON_GetArrayItem(run->history, i - 1);
		const char *path = json_text(capture, "daemon"), *id = json_text(capture, "capture_id");
		struct who one = who_of(capture, true);
		struct failure failure;
		cJSON *summary;
		int64_t step;

		if (!id || !path || strcmp(path, only.list[0].path) != 0 || !who_same(&who, &one))
			continue;
		summary = capture_summary(&only, id, &failure);
		step = series_idle_step(capture, summary);
		cJSON_Delete(summary);
		if (step > 0)
			values[n++] = (double)step;
	}
	member->history = (int64_t)n;
	if (n >= SNAPSHOT_HISTORY)
		member->median = series_median(values, n);
}

/* --if-slower-than: skips the unit if all its members can be compared and none is slower. */
static void compare(struct run *run, struct unit *unit)
{
	char now[TEXT_FIGURE_BYTES], usual[TEXT_FIGURE_BYTES], text[200];

	for (size_t i = 0; i < unit->count; i++) {
		struct member *member = &unit->members[i];

		if (member->outcome == OUTCOME_WAITING)
			recall(run, unit, member);
	}
	for (size_t i = 0; i < unit->count; i++) {
		const struct member *member = &unit->members[i];

		if (member->outcome == OUTCOME_WAITING && (member->median <= 0 || member->idle_step <= 0 ||
							   (double)member->idle_step > run->factor * member->median))
			return;
	}
	for (size_t i = 0; i < unit->count; i++) {
		struct member *member = &unit->members[i];

		if (member->outcome != OUTCOME_WAITING)
			continue;
		snprintf(text, sizeof text, "steps in %s, not slower than %gx the median of its %lld snapshots, %s",
			 text_duration(now, member->idle_step), run->factor, (long long)member->history,
			 text_duration(usual, (int64_t)member->median));
		skip(member, "not_slower", text);
	}
}

/* --- after it --- */

static void measure(struct run *run, const struct unit *unit, struct member *member)
{
	struct daemons only = {.list = {run->daemons.list[unit->daemon]}, .count = 1};
	struct failure failure;
	cJSON *summary;

	if (!member->captured)
		return;
	member->step = (int64_t)json_number(member->captured, "step_ns", 0);
	summary = capture_summary(&only, member->id, &failure);
	if (summary)
		member->busy = summary_busy_percent(summary, NULL);
	cJSON_Delete(summary);
}

static void take_removed(struct daemon *daemon, const cJSON *row, int fd, void *context)
{
	const char *id = json_text(row, "capture_id");

	(void)daemon;
	if (fd >= 0)
		close(fd);
	/* A capture may be kept because it is pinned or being read, or because another run has deleted it. */
	if (id && reply_is_row(row, "removed"))
		cJSON_AddItemToArray(context, need(cJSON_CreateString(id)));
}

/* --keep: of this unit's members, at their own daemon. */
static void retain(struct run *run, struct unit *unit)
{
	struct daemons only = {.list = {run->daemons.list[unit->daemon]}, .count = 1};
	const char *job = json_text(unit->members[0].process, "job");
	struct failure failure;
	cJSON *captures = series_query(&only, run->options.label, job && *job ? job : NULL, &failure);

	for (size_t i = 0; captures && i < unit->count; i++) {
		const struct member *member = &unit->members[i];
		struct who who = who_of(member->process, false);
		cJSON *ids, *request;

		/* A process whose pid cannot be seen cannot be told from another of its name and rank. */
		if (member->pid <= 0)
			continue;
		if (member->by_pid || series_needs_pid(captures, &who))
			who = who_of(member->process, true);
		ids = series_surplus(captures, &who, run->keep);
		while (cJSON_GetArraySize(ids) > LIMIT_TARGETS)
			cJSON_DeleteItemFromArray(ids, 0);
		request = request_new("rm");
		if (cJSON_GetArraySize(ids)) {
			cJSON_AddItemToObject(request, "capture_ids", ids);
			need(cJSON_AddTrueToObject(request, "keep"));
			if (!daemon_query(&only.list[0], request, take_removed, unit->deleted, &failure))
				note("older snapshots could not be deleted: %s", failure.message);
		} else {
			cJSON_Delete(ids);
		}
		cJSON_Delete(request);
	}
	cJSON_Delete(captures);
}

static void finish(struct run *run, struct unit *unit)
{
	enum outcome outcome;
	char *who, *line, *safe;

	for (size_t i = 0; i < unit->count; i++)
		measure(run, unit, &unit->members[i]);
	if (run->keep && !run->cancelled)
		retain(run, unit);
	unit->done = true;
	run->done++;
	if (run->format != FORMAT_TABLE)
		return;
	outcome = snapshot_outcome(unit);
	who = snapshot_describe(unit, (int64_t)geteuid());
	line = snapshot_line(unit);
	progress_clear();
	if (!run->quiet) {
		char *whole = need(malloc(strlen(who) + strlen(line) + 3));
		size_t n = strlen(who);

		memcpy(whole, who, n);
		memcpy(whole + n, ": ", 2);
		memcpy(whole + n + 2, line, strlen(line) + 1);
		safe = text_safe(whole);
		puts(safe);
		/* A run may be spread over an hour: each line is printed when its unit is done. */
		fflush(stdout);
		free(safe);
		free(whole);
	} else if (outcome == OUTCOME_FAILED || outcome == OUTCOME_INCOMPLETE) {
		note("%s: %s", who, line);
	}
	free(line);
	free(who);
}

/* Begins a unit. If all its members are skipped, the unit is finished at once. */
static void begin(struct run *run, struct unit *unit)
{
	struct failure failure;
	const cJSON *processes = processes_now(run, unit->daemon, &failure);
	bool waiting = false;

	for (size_t i = 0; i < unit->count; i++) {
		struct member *member = &unit->members[i];

		if (processes) {
			look(run, member, processes);
			continue;
		}
		member->outcome = OUTCOME_FAILED;
		member->code = error_exit_code(failure.error);
		snprintf(member->word, sizeof member->word, "%s", failure.word);
		snprintf(member->why, sizeof member->why, "%s", failure.message);
	}
	if (run->factor > 0)
		compare(run, unit);
	for (size_t i = 0; i < unit->count; i++)
		waiting = waiting || unit->members[i].outcome == OUTCOME_WAITING;
	if (!waiting) {
		finish(run, unit);
		return;
	}
	flight_begin(&run->flights[run->flying++], &run->daemons.list[unit->daemon], unit, &run->options);
}

/* --- all of them --- */

static void land(struct run *run, size_t i, int code, const char *why)
{
	struct unit *unit = run->flights[i].unit;

	flight_end(&run->flights[i], code, why);
	memmove(&run->flights[i], &run->flights[i + 1], (run->flying - i - 1) * sizeof *run->flights);
	run->flying--;
	finish(run, unit);
}

static void land_what_ended(struct run *run)
{
	for (size_t i = run->flying; i-- > 0;) {
		if (!run->flights[i].open)
			land(run, i, EXIT_FAILED, "the daemon said nothing of it");
		else if (clock_now() > run->flights[i].give_up)
			land(run, i, EXIT_TIMED_OUT,
			     "the daemon has not finished in time; `profd captures` says what becomes of it");
	}
}

static void draw(const struct run *run)
{
	char text[320], wait[TEXT_FIGURE_BYTES];

	if (!progress_live())
		return;
	if (run->flying) {
		char *who = snapshot_describe(run->flights[0].unit, (int64_t)geteuid());

		snprintf(text, sizeof text, "%ssnapshot %zu of %zu: %.200s",
			 run->cancelled ? "cancelling; Ctrl-C again leaves at once. " : "", run->done + 1, run->count,
			 who);
		free(who);
	} else if (run->next < run->count) {
		int64_t left = run->began + run->units[run->next].at - clock_now();

		snprintf(text, sizeof text, "snapshot %zu of %zu begins in %s", run->next + 1, run->count,
			 text_duration(wait, left > 0 ? left / 1000000000 * 1000000000 : 0));
	} else {
		return;
	}
	progress_draw(text);
}

/* Waits until something comes, the next unit is due, or a signal. */
static void wait_for_news(struct run *run, const sigset_t *unblocked)
{
	struct pollfd pollers[PARALLEL_MOST];
	int64_t now = clock_now(), until = INT64_MAX, left;
	struct timespec wait;

	draw(run);
	for (size_t i = 0; i < run->flying; i++) {
		pollers[i] = (struct pollfd){.fd = run->flights[i].daemon.fd, .events = POLLIN};
		until = run->flights[i].give_up < until ? run->flights[i].give_up : until;
	}
	if (run->next < run->count && run->flying < run->parallel && !run->cancelled &&
	    run->began + run->units[run->next].at < until)
		until = run->began + run->units[run->next].at;
	if (progress_live() && now + REDRAW_NS < until)
		until = now + REDRAW_NS;
	left = until > now ? until - now : 0;
	wait = (struct timespec){.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
	if (ppoll(pollers, run->flying, &wait, unblocked) > 0)
		for (size_t i = 0; i < run->flying; i++)
			if (pollers[i].revents)
				flight_receive(&run->flights[i]);
}

static void cancel(struct run *run)
{
	run->cancelled = true;
	if (!progress_live())
		note("cancelling; Ctrl-C again leaves at once");
	for (size_t i = 0; i < run->flying; i++) {
		flight_cancel(&run->flights[i]);
		run->flights[i].give_up = clock_now() + CANCEL_NS;
	}
}

static void record_all(struct run *run)
{
	struct sigaction action = {.sa_handler = interrupted}, before;
	sigset_t interrupt, unblocked;

	sigemptyset(&action.sa_mask);
	sigemptyset(&interrupt);
	sigaddset(&interrupt, SIGINT);
	sigprocmask(SIG_BLOCK, &interrupt, &unblocked);
	sigaction(SIGINT, NULL, &before);
	/* In the background of a shell without job control Ctrl-C is meant for another program. */
	if (before.sa_handler != SIG_IGN)
		sigaction(SIGINT, &action, NULL);
	run->began = clock_now();
	while (run->flying || (run->next < run->count && !run->cancelled)) {
		while (run->next < run->count && run->flying < run->parallel && !run->cancelled &&
		       clock_now() >= run->began + run->units[run->next].at)
			begin(run, &run->units[run->next++]);
		land_what_ended(run);
		if (run->flying ||
		    (run->next < run->count && !run->cancelled && clock_now() < run->began + run->units[run->next].at))
			wait_for_news(run, &unblocked);
		land_what_ended(run);
		if (interrupts && !run->cancelled)
			cancel(run);
		if (interrupts > 1)
			break;
	}
	while (run->flying)
		land(run, 0, EXIT_CANCELLED, "left before it was finished");
	progress_clear();
	sigaction(SIGINT, &before, NULL);
	sigprocmask(SIG_SETMASK, &unblocked, NULL);
}

/* --- what came of it --- */

static int verdict(const struct run *run)
{
	int code = run->cancelled ? EXIT_CANCELLED : EXIT_DONE;

	for (size_t u = 0; u < run->count; u++)
		for (size_t i = 0; i < run->units[u].count; i++)
			code = exit_worse(code, run->units[u].members[i].code);
	return code;
}

/* One run at a time for each label, daemon and user: a slow job must not make cron's runs pile up. */
static int take_lock(const struct run *run, struct lock *lock)
{
	char name[2048];
	int n = snprintf(name, sizeof name, "%s\n%s", run->options.label, run->daemons.tried), error;

	if (n < 0)
		name[0] = 0;
	error = lock_take(lock, name);
	if (error == -EWOULDBLOCK)
		return fail(EXIT_BUSY,
			    "another run with the label %s has not ended (pid %ld): this one ends; run it less often, "
			    "or with a --label of its own",
			    run->options.label, lock->holder);
	/* Without the lock the daemon still refuses to record a process twice, so we go on. */
	if (error)
		note("runs are not kept apart: no lock at %s: %s", lock->path, strerror(-error));
	return EXIT_DONE;
}

static int take_snapshots(struct run *run)
{
	int64_t stagger = arguments_number(run->arguments, "stagger", 0);
	struct failure failure = {0};

	for (size_t u = 0; u < run->count; u++)
		run->units[u].at = snapshot_start(u, run->count, stagger, random_part());
	if (run->factor > 0) {
		run->history = series_query(&run->daemons, run->options.label, NULL, &failure);
		if (!run->history)
			return failure_print(&failure);
	}
	record_all(run);
	if (run->format == FORMAT_JSON)
		snapshot_print_json(run->units, run->count, &run->daemons, run->options.label);
	else if (run->format == FORMAT_CSV)
		snapshot_print_csv(run->units, run->count);
	return verdict(run);
}

int command_snapshot(struct arguments *arguments)
{
	struct run *run = need(calloc(1, sizeof *run));
	struct lock lock = {.fd = -1};
	int code, picked;

	*run = (struct run){
		.arguments = arguments,
		.options = {.steps = arguments_number(arguments, "steps", 3),
			    .warmup = arguments_number(arguments, "warmup", 1),
			    .at_multiple = arguments_number(arguments, "at-multiple", 0),
			    .timeout = arguments_number(arguments, "timeout", 0),
			    .label = arguments_text(arguments, "label", "snapshot"),
			    .collectors = arguments_collectors(arguments)},
		.format = arguments_format(arguments),
		.quiet = arguments_has(arguments, "quiet"),
		.keep = arguments_number(arguments, "keep", 0),
		.parallel = (size_t)arguments_number(arguments, "max-parallel", 1),
	};
	code = check(arguments, run);
	if (code == EXIT_DONE)
		code = daemons_need(&run->daemons);
	if (code == EXIT_DONE)
		code = take_lock(run, &lock);
	if (code == EXIT_DONE) {
		picked = pick(run);
		code = exit_worse(picked, run->count || run->format != FORMAT_TABLE ? take_snapshots(run) : EXIT_DONE);
	}
	lock_release(&lock);
	for (unsigned i = 0; i < DAEMONS_MAX; i++)
		cJSON_Delete(run->processes[i]);
	cJSON_Delete(run->history);
	snapshot_free(run->units, run->count);
	daemons_deinit(&run->daemons);
	free(run);
	return code;
}
