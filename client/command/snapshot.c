/* snapshot.c - `profd snapshot`: a short recording of every job that is picked, for cron and timers: the command line,
 * and what is printed. What is picked and how it is told stands in snapshot.h, the recording of all of them in round.h.
 * One thread. */
#include "client/attach/bring.h"
#include "client/link/collect.h"
#include "client/link/presence.h"
#include "client/snapshot/lock.h"
#include "client/snapshot/outcome.h"
#include "client/snapshot/round.h"
#include "client/snapshot/series.h"
#include "client/snapshot/snapshot.h"
#include "client/ui/clock.h"
#include "client/ui/json.h"
#include "client/ui/progress.h"
#include "client/ui/text.h"
#include "client/verbs/arguments.h"
#include "client/verbs/chosen.h"
#include "client/verbs/commands.h"
#include "snapshot_print.h"

#include "proto/schedule.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

struct run {
	const struct arguments *arguments;
	struct daemons daemons;
	enum output_format format;
	bool quiet;
	struct round round;
};

/* --- the command line --- */

static int check(const struct arguments *a, struct run *run)
{
	struct schedule schedule = {.warmup = (uint32_t)run->round.options.warmup,
				    .active = (uint32_t)run->round.options.steps,
				    .repeat = 1};
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
	if (arguments_has(a, "attach") && !a->pid_count && !arguments_has(a, "name") && !arguments_has(a, "job"))
		return fail(EXIT_USAGE,
			    "--attach goes with --pid, --job or --name: nothing is brought into all processes at "
			    "once");
	refusal = ranks ? snapshot_ranks_refusal(ranks) : NULL;
	if (refusal)
		return fail(EXIT_USAGE, "--ranks %s: %s", ranks, refusal);
	if (!*run->round.options.label)
		return fail(EXIT_USAGE, "a snapshot needs a label, by which --keep and `profd history` know it");
	if (factor && !series_parse_factor(factor, &run->round.turn.factor))
		return fail(EXIT_USAGE, "--if-slower-than %s: a factor of 1 or more is wanted, such as 1.2x", factor);
	if (factor && run->round.keep && run->round.keep < SNAPSHOT_HISTORY)
		return fail(EXIT_USAGE, "--if-slower-than compares with %d snapshots or more: give --keep %d or more",
			    SNAPSHOT_HISTORY, SNAPSHOT_HISTORY);
	if (run->quiet && run->format != FORMAT_TABLE)
		return fail(EXIT_USAGE, "--quiet leaves lines out of the table; it does not go with --format");
	refusal = schedule_check(&schedule);
	return refusal ? fail(EXIT_USAGE, "%s", refusal) : chosen_check(a);
}

/* --- picking --- */

/* --attach. */
static int bring(struct run *run)
{
	const struct arguments *a = run->arguments;
	struct bring how = {.daemons = &run->daemons, .patience = BRING_PATIENCE_NS};

	if (!arguments_has(a, "attach"))
		return EXIT_DONE;
	return a->pid_count ? bring_missing(&how, a->pids, a->pid_count, true)
			    : bring_found(&how, arguments_text(a, "job", NULL), arguments_text(a, "name", NULL), true);
}

static int say_not_registered(int64_t pid)
{
	struct failure failure = {.error = ERROR_NO_AGENT, .pid = pid};

	presence_explain(&failure);
	if (failure.error != ERROR_NO_AGENT)
		return failure_print(&failure);
	return fail(EXIT_NO_TARGET,
		    "process %lld is not registered; `profd doctor --pid %lld` says why, --attach brings the agent in",
		    (long long)pid, (long long)pid);
}

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
			code = say_not_registered(run->arguments->pids[i]);
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
		run->round.units =
			snapshot_pick(processes, paths, run->daemons.count, &criteria, &run->round.count, &fast);
		missing = not_registered(run, processes);
		if (run->round.count == 0 && missing == EXIT_DONE)
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

/* --- what came of it --- */

/* The line of a unit. A run may be spread over an hour: each line is printed when its unit is done. */
static void tell(struct unit *unit, void *context)
{
	const struct run *run = context;
	char *who, *line;
	enum outcome outcome;

	if (run->format != FORMAT_TABLE)
		return;
	outcome = snapshot_outcome(unit);
	who = snapshot_describe(unit, (int64_t)geteuid());
	line = snapshot_line(unit);
	progress_clear();
	if (!run->quiet) {
		char *safe_who = text_safe(who), *safe_line = text_safe(line);

		printf("%s: %s\n", safe_who, safe_line);
		fflush(stdout);
		free(safe_who);
		free(safe_line);
	} else if (outcome == OUTCOME_FAILED || outcome == OUTCOME_INCOMPLETE) {
		note("%s: %s", who, line);
	}
	free(line);
	free(who);
}

static int verdict(const struct run *run)
{
	int code = run->round.cancelled ? EXIT_CANCELLED : EXIT_DONE;

	for (size_t u = 0; u < run->round.count; u++)
		for (size_t i = 0; i < run->round.units[u].count; i++)
			code = exit_worse(code, run->round.units[u].members[i].code);
	return code;
}

/* One run at a time for each label, daemon and user: a slow job must not make cron's runs pile up. */
static int take_lock(const struct run *run, struct lock *lock)
{
	char name[2048], pid[40] = "";
	int n = snprintf(name, sizeof name, "%s\n%s", run->round.options.label, run->daemons.tried), error;

	if (n < 0)
		name[0] = 0;
	error = lock_take(lock, name);
	if (lock->holder)
		snprintf(pid, sizeof pid, " (pid %ld)", lock->holder);
	if (error == -EWOULDBLOCK)
		return fail(EXIT_BUSY,
			    "another run with the label %s has not ended%s: this one ends; run it less often, "
			    "or with a --label of its own",
			    run->round.options.label, pid);
	/* Without the lock the daemon still refuses to record a process twice, so we go on. */
	if (error)
		note("runs are not kept apart: no lock at %s: %s", lock->path, strerror(-error));
	return EXIT_DONE;
}

static int take_snapshots(struct run *run)
{
	int64_t stagger = arguments_number(run->arguments, "stagger", 0);
	struct failure failure = {0};

	for (size_t u = 0; u < run->round.count; u++)
		run->round.units[u].at = snapshot_start(u, run->round.count, stagger, random_part());
	if (run->round.turn.factor > 0) {
		run->round.turn.history = series_query(&run->daemons, run->round.options.label, NULL, &failure);
		if (!run->round.turn.history)
			return failure_print(&failure);
	}
	round_record(&run->round);
	if (run->format == FORMAT_JSON)
		snapshot_print_json(run->round.units, run->round.count, &run->daemons, run->round.options.label);
	else if (run->format == FORMAT_CSV)
		snapshot_print_csv(run->round.units, run->round.count);
	return verdict(run);
}

int command_snapshot(struct arguments *arguments)
{
	struct run *run = need(calloc(1, sizeof *run));
	struct lock lock = {.fd = -1};
	int code, picked;

	*run = (struct run){
		.arguments = arguments,
		.format = arguments_format(arguments),
		.quiet = arguments_has(arguments, "quiet"),
		.round = {.options = {.steps = arguments_number(arguments, "steps", 3),
				      .warmup = arguments_number(arguments, "warmup", 1),
				      .at_multiple = arguments_number(arguments, "at-multiple", 0),
				      .timeout = arguments_number(arguments, "timeout", 0),
				      .label = arguments_text(arguments, "label", "snapshot"),
				      .collectors = chosen_collectors(arguments)},
			  .turn = {.daemons = &run->daemons},
			  .parallel = (size_t)arguments_number(arguments, "max-parallel", 1),
			  .keep = arguments_number(arguments, "keep", 0),
			  .finished = tell,
			  .context = run},
	};
	run->round.turn.steps = run->round.options.steps;
	run->round.turn.warmup = run->round.options.warmup;
	run->round.turn.timeout = run->round.options.timeout;
	code = check(arguments, run);
	if (code == EXIT_DONE)
		code = daemons_need(&run->daemons);
	if (code == EXIT_DONE)
		code = take_lock(run, &lock);
	if (code == EXIT_DONE)
		code = bring(run);
	if (code == EXIT_DONE) {
		picked = pick(run);
		code = exit_worse(picked,
				  run->round.count || run->format != FORMAT_TABLE ? take_snapshots(run) : EXIT_DONE);
	}
	lock_release(&lock);
	turn_deinit(&run->round.turn);
	snapshot_free(run->round.units, run->round.count);
	daemons_deinit(&run->daemons);
	free(run);
	return code;
}
