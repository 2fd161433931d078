/* trigger.c - `profd trigger`: from the command line to the request, and from what came of it to the exit code. */
#include "client/attach/bring.h"
#include "client/export/folder.h"
#include "client/export/target.h"
#include "client/link/follow.h"
#include "client/link/presence.h"
#include "client/ui/failure.h"
#include "client/verbs/arguments.h"
#include "client/verbs/chosen.h"
#include "client/verbs/commands.h"
#include "dry_run.h"
#include "look.h"
#include "trigger_export.h"
#include "trigger_print.h"
#include "trigger_request.h"
#include "trigger_verdict.h"

#include <stdio.h>
#include <string.h>

/* After the trigger's own deadline: time to derive what was recorded until then. */
#define GRACE_NS 60000000000ll

/* --unit and --phase. A phase is one of batches. */
static int check_batches(const struct arguments *a)
{
	static const char *const others[] = {"step-range", "step-op", "step-optimizer", "at-step", "at-multiple"};

	const char *unit = arguments_has(a, "phase") ? "" : arguments_text(a, "unit", "");

	if (!*trigger_batches(a))
		return EXIT_DONE;
	if (arguments_has(a, "phase") && strcmp(arguments_text(a, "unit", "batch"), "batch") != 0)
		return fail(
			EXIT_USAGE,
			"--phase counts batches: drop --unit %s. `profd show --by phases` shows the phases inside a "
			"step",
			arguments_text(a, "unit", ""));
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (arguments_has(a, others[i]))
			return fail(EXIT_USAGE, "--%s%s counts %s from the trigger on; it does not go with --%s",
				    arguments_has(a, "phase") ? "phase" : "unit ", unit,
				    *unit == 'e' ? "epochs" : "batches", others[i]);
	return EXIT_DONE;
}

static int check(const struct arguments *a)
{
	unsigned kinds =
		0u + (a->pid_count > 0) + arguments_has(a, "name") + arguments_has(a, "job") + arguments_has(a, "all");
	const char *output = arguments_text(a, "output", NULL);
	const char *refusal;

	if (kinds == 0)
		return fail(EXIT_USAGE, "trigger what? Give --pid PID, --name GLOB, --job JOB or --all; `profd ps` "
					"lists the processes");
	if (kinds > 1)
		return fail(EXIT_USAGE, "give one of --pid, --name, --job and --all, not several");
	if (arguments_has(a, "attach") && arguments_has(a, "all"))
		return fail(EXIT_USAGE,
			    "--attach goes with --pid, --job or --name: nothing is brought into all processes at "
			    "once");
	if (arguments_has(a, "wait-for") && !arguments_has(a, "name") && !arguments_has(a, "job"))
		return fail(EXIT_USAGE,
			    "--wait-for goes with --name or --job: a process that has not started has no pid");
	if (arguments_has(a, "duration")) {
		static const char *const others[] = {"steps",	"at-step",	  "at-multiple", "step-range",
						     "step-op", "step-optimizer", "skip-first",	 "wait-steps",
						     "repeat",	"warmup",	  "unit",	 "phase"};

		for (size_t i = 0; i < sizeof others / sizeof *others; i++)
			if (arguments_has(a, others[i]))
				return fail(EXIT_USAGE, "--duration records a window of time; it does not go with --%s",
					    others[i]);
	}
	if (arguments_has(a, "dry-run") && (arguments_has(a, "look") || arguments_has(a, "attach")))
		return fail(EXIT_USAGE,
			    arguments_has(a, "look")
				    ? "--dry-run records nothing, and --look keeps nothing: give one of them"
				    : "--dry-run changes nothing; it does not go with --attach. `profd doctor --pid "
				      "PID` says whether the agent can be brought in");
	if (arguments_has(a, "look")) {
		static const char *const others[] = {"steps",	"at-step",	  "at-multiple", "step-range",
						     "step-op", "step-optimizer", "skip-first",	 "wait-steps",
						     "repeat",	"warmup",	  "duration",	 "graphs",
						     "api",	"output",	  "label",	 "no-wait",
						     "preset",	"activities",	  "unit",	 "phase"};

		for (size_t i = 0; i < sizeof others / sizeof *others; i++)
			if (arguments_has(a, others[i]))
				return fail(EXIT_USAGE,
					    "--look lists what recurs and keeps nothing; it does not go with --%s",
					    others[i]);
		for (unsigned bit = 0; bit < COLLECTOR_COUNT; bit++) {
			const struct collector_facts *collector = collector_facts(bit);

			if (collector && chosen_by_option(a, collector))
				return fail(EXIT_USAGE,
					    "--look lists what recurs and keeps nothing; it does not go with --%s",
					    collector->option);
		}
	}
	if (trigger_check(a))
		return EXIT_USAGE;
	if (arguments_has(a, "step-range") + arguments_has(a, "step-op") + arguments_has(a, "step-optimizer") > 1)
		return fail(EXIT_USAGE, "give one of --step-range, --step-op and --step-optimizer, not several");
	if (check_batches(a))
		return EXIT_USAGE;
	if (output) {
		if (strcmp(output, "-") == 0)
			return fail(EXIT_USAGE, "trigger --output wants a file; for standard output use `profd export "
						"CAPTURE --output -`");
		if (arguments_has(a, "no-wait"))
			return fail(
				EXIT_USAGE,
				"--output needs the finished capture; leave out --no-wait, or `profd export` it later");
		/* Before anything is recorded for it. */
		if (folder_named(output))
			return folder_possible(output) ? folder_refuse(output, folder_possible(output)) : EXIT_DONE;
		refusal = target_refusal(NULL, output, arguments_has(a, "force"), 1, NULL);
		if (refusal)
			return fail(EXIT_USAGE, "%s", refusal);
	}
	return EXIT_DONE;
}

/* --attach. A recording that a window of time, a range or an operator ends needs no steps of the process's own. */
static int bring(const struct arguments *a, struct daemons *daemons)
{
	struct bring how = {.daemons = daemons, .patience = BRING_PATIENCE_NS};
	bool steps = !trigger_window(a) && !arguments_has(a, "step-range") && !arguments_has(a, "step-op") &&
		     !arguments_has(a, "step-optimizer") && !*trigger_batches(a);

	if (!arguments_has(a, "attach"))
		return EXIT_DONE;
	return a->pid_count ? bring_missing(&how, a->pids, a->pid_count, steps)
			    : bring_found(&how, arguments_text(a, "job", NULL), arguments_text(a, "name", NULL), steps);
}

/* What is said while the daemon looks for the processes. */
static void describe_wanted(const struct arguments *a, char *text, size_t bytes)
{
	const char *name = arguments_text(a, "name", NULL), *job = arguments_text(a, "job", NULL);

	if (name)
		snprintf(text, bytes, "a process whose name matches %.48s", name);
	else if (job)
		snprintf(text, bytes, "a process of job %.48s", job);
	else
		snprintf(text, bytes, "%s", a->pid_count == 1 ? "the process's agent" : "the processes' agents");
}

static void drop(cJSON *requests[DAEMONS_MAX])
{
	for (unsigned i = 0; i < DAEMONS_MAX; i++)
		cJSON_Delete(requests[i]);
}

int command_trigger(struct arguments *arguments)
{
	struct daemons daemons;
	struct follow follow = {.daemons = &daemons,
				.follow = !arguments_has(arguments, "no-wait"),
				.window = trigger_window(arguments) != 0};
	cJSON *requests[DAEMONS_MAX] = {0};
	int code = check(arguments);

	if (code)
		return code;
	code = daemons_need(&daemons);
	if (code)
		return code;
	presence_await(&daemons, arguments->pids, arguments->pid_count);
	code = bring(arguments, &daemons);
	if (code) {
		daemons_deinit(&daemons);
		return code;
	}
	describe_wanted(arguments, follow.wanted, sizeof follow.wanted);
	follow.give_up_ns = trigger_timeout(arguments) + GRACE_NS;
	trigger_requests(arguments, &daemons, requests);
	if (arguments_has(arguments, "dry-run")) {
		code = dry_run(arguments, &daemons, requests);
		drop(requests);
		daemons_deinit(&daemons);
		return code;
	}
	follow_run(&follow, requests);
	drop(requests);
	if (arguments_has(arguments, "look")) {
		code = look_print(&follow, arguments_format(arguments));
	} else {
		code = trigger_export(arguments, &follow);
		trigger_print(&follow, arguments_format(arguments));
	}
	code = exit_worse(trigger_verdict(arguments, &follow), code);
	follow_deinit(&follow);
	daemons_deinit(&daemons);
	return code;
}
