/* trigger.c - `profd trigger`: from the command line to the request, and from what came of it to the exit code. */
#include "client/export/folder.h"
#include "client/export/target.h"
#include "client/link/collect.h"
#include "client/link/follow.h"
#include "client/link/presence.h"
#include "client/reader/capture.h"
#include "client/ui/json.h"
#include "client/ui/text.h"
#include "client/verbs/arguments.h"
#include "client/verbs/commands.h"
#include "look.h"
#include "trigger_print.h"

#include "proto/limits.h"
#include "proto/message.h"
#include "proto/schedule.h"

#include <stdlib.h>
#include <string.h>

#define TIMEOUT_NS 120000000000ll
/* After the trigger's own deadline: time to derive what was recorded until then. */
#define GRACE_NS 60000000000ll

static int check(const struct arguments *a)
{
	unsigned kinds =
		0u + (a->pid_count > 0) + arguments_has(a, "name") + arguments_has(a, "job") + arguments_has(a, "all");
	const char *output = arguments_text(a, "output", NULL);
	const char *refusal;
	struct schedule schedule = {
		.skip_first = (uint32_t)arguments_number(a, "skip-first", 0),
		.wait = (uint32_t)arguments_number(a, "wait-steps", 0),
		.warmup = (uint32_t)arguments_number(a, "warmup", 1),
		.active = (uint32_t)arguments_number(a, "steps", 3),
		.repeat = (uint32_t)arguments_number(a, "repeat", 1),
	};

	if (kinds == 0)
		return fail(EXIT_USAGE, "trigger what? Give --pid PID, --name GLOB, --job JOB or --all; `profd ps` "
					"lists the processes");
	if (kinds > 1)
		return fail(EXIT_USAGE, "give one of --pid, --name, --job and --all, not several");
	if (arguments_has(a, "wait-for") && !arguments_has(a, "name") && !arguments_has(a, "job"))
		return fail(EXIT_USAGE,
			    "--wait-for goes with --name or --job: a process that has not started has no pid");
	if (arguments_has(a, "duration")) {
		static const char *const others[] = {"steps",	"at-step",	  "at-multiple", "step-range",
						     "step-op", "step-optimizer", "skip-first",	 "wait-steps",
						     "repeat",	"warmup"};

		for (size_t i = 0; i < sizeof others / sizeof *others; i++)
			if (arguments_has(a, others[i]))
				return fail(EXIT_USAGE, "--duration records a window of time; it does not go with --%s",
					    others[i]);
	}
	if (arguments_has(a, "look")) {
		static const char *const others[] = {"steps",	"at-step",	  "at-multiple", "step-range",
						     "step-op", "step-optimizer", "skip-first",	 "wait-steps",
						     "repeat",	"warmup",	  "duration",	 "graphs",
						     "api",	"output",	  "label",	 "no-wait"};

		for (size_t i = 0; i < sizeof others / sizeof *others; i++)
			if (arguments_has(a, others[i]))
				return fail(EXIT_USAGE,
					    "--look lists what recurs and keeps nothing; it does not go with --%s",
					    others[i]);
		for (unsigned bit = 0; bit < COLLECTOR_COUNT; bit++) {
			const struct collector_facts *collector = collector_facts(bit);

			if (collector && arguments_has_collector(a, collector))
				return fail(EXIT_USAGE,
					    "--look lists what recurs and keeps nothing; it does not go with --%s",
					    collector->option);
		}
	}
	if (arguments_has(a, "no-gpu")) {
		static const char *const others[] = {"memory", "graphs", "api"};

		for (size_t i = 0; i < sizeof others / sizeof *others; i++)
			if (arguments_has(a, others[i]))
				return fail(EXIT_USAGE, "--no-gpu records nothing of CUDA; it does not go with --%s",
					    others[i]);
	}
	if (arguments_has(a, "step-range") + arguments_has(a, "step-op") + arguments_has(a, "step-optimizer") > 1)
		return fail(EXIT_USAGE, "give one of --step-range, --step-op and --step-optimizer, not several");
	if (arguments_has(a, "at-step") && arguments_has(a, "at-multiple"))
		return fail(EXIT_USAGE, "give --at-step or --at-multiple, not both");
	if (arguments_has(a, "at-step") && arguments_has(a, "skip-first"))
		return fail(EXIT_USAGE, "give --at-step or --skip-first, not both");
	refusal = schedule_check(&schedule);
	if (refusal)
		return fail(EXIT_USAGE, "%s", refusal);
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
		refusal = target_refusal(NULL, output, arguments_has(a, "force"));
		if (refusal)
			return fail(EXIT_USAGE, "%s", refusal);
	}
	return EXIT_DONE;
}

/* Whom the daemon is to find: what is said until it has. */
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

/* The window of time that is recorded; 0 = steps are. */
static int64_t window(const struct arguments *a)
{
	return arguments_has(a, "look") ? arguments_number(a, "look", 0) : arguments_number(a, "duration", 0);
}

static int64_t timeout(const struct arguments *a)
{
	int64_t repeat = arguments_number(a, "repeat", 1);
	int64_t total;

	if (arguments_has(a, "timeout"))
		total = arguments_number(a, "timeout", 0);
	else if (repeat == 0 || repeat > 30)
		total = (int64_t)LIMIT_DURATION_NS;
	else
		total = TIMEOUT_NS * repeat + window(a);
	total += arguments_number(a, "wait-for", 0);
	return total < (int64_t)LIMIT_DURATION_NS ? total : (int64_t)LIMIT_DURATION_NS;
}

/* Everything but the targets. */
static cJSON *request(const struct arguments *a)
{
	cJSON *object = request_new("trigger");
	cJSON *schedule = need(cJSON_AddObjectToObject(object, "schedule"));
	bool no_steps = window(a) != 0, look = arguments_has(a, "look");

	cJSON_AddNumberToObject(schedule, "skip_first", (double)arguments_number(a, "skip-first", 0));
	cJSON_AddNumberToObject(schedule, "wait", (double)arguments_number(a, "wait-steps", 0));
	cJSON_AddNumberToObject(schedule, "warmup", (double)arguments_number(a, "warmup", no_steps ? 0 : 1));
	cJSON_AddNumberToObject(schedule, "active", (double)arguments_number(a, "steps", no_steps ? 1 : 3));
	cJSON_AddNumberToObject(schedule, "repeat", (double)arguments_number(a, "repeat", 1));
	cJSON_AddNumberToObject(object, "wait_for", (double)arguments_number(a, "wait-for", 0));
	cJSON_AddNumberToObject(object, "at_step", (double)arguments_number(a, "at-step", 0));
	cJSON_AddNumberToObject(object, "at_multiple", (double)arguments_number(a, "at-multiple", 0));
	cJSON_AddNumberToObject(object, "duration", (double)window(a));
	json_add_text(object, "step_range", arguments_text(a, "step-range", ""));
	json_add_text(object, "step_operator", arguments_text(a, "step-op", ""));
	json_add_text(object, "step_optimizer", arguments_text(a, "step-optimizer", ""));
	json_add_text(object, "label", look ? "look" : arguments_text(a, "label", ""));
	cJSON_AddNumberToObject(object, "timeout", (double)timeout(a));
	cJSON_AddNumberToObject(object, "max_events", (double)arguments_number(a, "max-events", 0));
	cJSON_AddNumberToObject(object, "max_bytes", (double)arguments_number(a, "max-bytes", 0));
	cJSON_AddBoolToObject(object, "follow", !arguments_has(a, "no-wait"));
	request_collectors(object, look ? collectors_asked(ASKED_ALWAYS) : arguments_collectors(a));
	json_add_text(object, "graphs", arguments_text(a, "graphs", "nodes"));
	json_add_text(object, "api", arguments_text(a, "api", "launches"));
	return object;
}

/* The daemon with which a process is registered; the first one where it is with none, for its sentence. */
static unsigned home(struct daemons *daemons, int64_t pid)
{
	cJSON *ask = request_new("ps");
	unsigned found = 0;

	need(cJSON_AddNumberToObject(ask, "pid", (double)pid));
	for (unsigned i = 0; i < daemons->count; i++) {
		struct collect collect = {"process", need(cJSON_CreateArray())};
		struct failure failure;
		bool here = daemon_query(&daemons->list[i], ask, collect_row, &collect, &failure) &&
			    cJSON_GetArraySize(collect.array) > 0;

		cJSON_Delete(collect.array);
		/* "Not yours" and "busy" are known only to the one that has it. */
		if (here || failure.error == ERROR_NOT_YOURS) {
			found = i;
			if (here)
				break;
		}
	}
	cJSON_Delete(ask);
	return found;
}

static void add_targets(const struct arguments *a, struct daemons *daemons, cJSON *requests[DAEMONS_MAX])
{
	cJSON *targets;

	if (a->pid_count) {
		for (size_t i = 0; i < a->pid_count; i++) {
			unsigned daemon = daemons->count > 1 ? home(daemons, a->pids[i]) : 0;
			cJSON *pids;

			if (!requests[daemon]) {
				requests[daemon] = request(a);
				targets = need(cJSON_AddObjectToObject(requests[daemon], "targets"));
				need(cJSON_AddArrayToObject(targets, "pids"));
			}
			targets = cJSON_GetObjectItemCaseSensitive(requests[daemon], "targets");
			pids = cJSON_GetObjectItemCaseSensitive(targets, "pids");
			cJSON_AddItemToArray(pids, need(cJSON_CreateNumber((double)a->pids[i])));
		}
		return;
	}
	for (unsigned i = 0; i < daemons->count; i++) {
		requests[i] = request(a);
		targets = need(cJSON_AddObjectToObject(requests[i], "targets"));
		if (arguments_has(a, "all"))
			need(cJSON_AddTrueToObject(targets, "all"));
		else if (arguments_has(a, "name"))
			json_add_text(targets, "name", arguments_text(a, "name", ""));
		else
			json_add_text(targets, "job", arguments_text(a, "job", ""));
	}
}

/* The exit code of one finished capture. */
static int capture_code(const struct followed *followed)
{
	const char *reason = followed->captured ? json_text(followed->captured, "reason_code") : NULL;

	if (strcmp(followed->status, "complete") == 0)
		return EXIT_DONE;
	if (reason && strcmp(reason, cancel_reason_word(REASON_DEADLINE)) == 0)
		return EXIT_TIMED_OUT;
	return strcmp(followed->status, "incomplete") == 0 ? EXIT_INCOMPLETE : EXIT_FAILED;
}

static int by_error(const void *a, const void *b)
{
	const struct failure *one = a, *other = b;

	if (one->error != other->error)
		return one->error < other->error ? -1 : 1;
	return (one->pid > other->pid) - (one->pid < other->pid);
}

/* Do two sentences differ in the pid alone, at most? */
static bool alike(const struct failure *one, const struct failure *other)
{
	switch (one->error) {
	case ERROR_NO_PROCESS:
	case ERROR_NO_AGENT:
	case ERROR_NOTHING_YET:
	case ERROR_NOT_REGISTERED:
	case ERROR_GONE:
	case ERROR_NOT_YOURS:
	case ERROR_BUSY:
	case ERROR_NO_STEPS:
	case ERROR_AT_STEP_UNSEEN:
		return one->error == other->error;
	default:
		return one->error == other->error && strcmp(one->message, other->message) == 0;
	}
}

/* A sentence for each kind of refusal, with the other processes that it goes for: a job may have many ranks. */
static int print_refused(const struct arguments *a, struct follow *follow)
{
	int code = EXIT_DONE;

	if (follow->refused_count)
		qsort(follow->refused, follow->refused_count, sizeof *follow->refused, by_error);
	for (size_t i = 0, n; i < follow->refused_count; i += n) {
		const struct failure *first = &follow->refused[i];
		char others[256] = "", pid[TEXT_FIGURE_BYTES];
		size_t used = 0, named = 0;

		/* Who names nobody means whoever steps: launchers carry the agent too. */
		if (first->error == ERROR_NO_STEPS && arguments_has(a, "all") && follow->count)
			note("a process (%s) was left out: it has shown no steps", text_pid(pid, first->pid));
		else
			code = exit_worse(code, failure_print(first));
		for (n = 1; i + n < follow->refused_count && alike(first, &follow->refused[i + n]); n++) {
			if (used + 24 >= sizeof others || follow->refused[i + n].pid <= 0)
				continue;
			used += (size_t)snprintf(others + used, sizeof others - used, "%s%lld", named ? ", " : "",
						 (long long)follow->refused[i + n].pid);
			named++;
		}
		if (n > 1 && !named)
			note("the same goes for %zu more", n - 1);
		else if (n > 1)
			note("the same goes for process%s %s%s", n > 2 ? "es" : "", others,
			     named < n - 1 ? " and others" : "");
	}
	return code;
}

static void print_left_out(const struct follow *follow)
{
	const cJSON *row;

	cJSON_ArrayForEach(row, follow->left_out)
	{
		const char *name = json_text(row, "name"), *role = json_text(row, "message");
		char pid[TEXT_FIGURE_BYTES], *safe = text_safe(name ? name : "?");

		note("%s (%s) was left out: it shows no steps, and is a %s of those that do",
		     text_pid(pid, (int64_t)json_number(row, "pid", 0)), safe, role ? role : "helper");
		free(safe);
	}
}

static const char *next_after_timeout(const struct arguments *a)
{
	if (arguments_has(a, "step-range"))
		return "; did a range match --step-range? --duration 2s instead of it shows which ranges there are";
	if (arguments_has(a, "step-op"))
		return "; did an operator match --step-op? --duration 2s instead of it shows which operators there are";
	if (arguments_has(a, "step-optimizer"))
		return "; did an optimizer's class match --step-optimizer? `profd ps` names those that step";
	return "; does the job step (`profd ps`)? --timeout waits longer, --duration needs no steps";
}

static int verdict(const struct arguments *a, struct follow *follow)
{
	int code = print_refused(a, follow);

	print_left_out(follow);
	for (size_t i = 0; i < follow->count && follow->follow; i++) {
		const struct followed *one = &follow->captures[i];
		const char *reason = one->captured ? json_text(one->captured, "reason") : NULL;
		char pid[TEXT_FIGURE_BYTES];
		int own;

		if (!one->captured)
			continue;
		own = capture_code(one);
		if (own && !follow->cancelled)
			fail(own, "capture %s (%s) %s: %s%s", one->id, text_pid(pid, one->pid),
			     strcmp(one->status, "failed") == 0 ? "failed" : "is incomplete",
			     reason ? reason : "the daemon did not say why",
			     own == EXIT_TIMED_OUT ? next_after_timeout(a) : "");
		code = exit_worse(code, own);
	}
	if (follow->timed_out && !follow->cancelled)
		code = exit_worse(code, fail(EXIT_TIMED_OUT, "the daemon has not finished in time; the captures go on: "
							     "`profd captures` lists them, `profd cancel` ends them"));
	if (follow->cut_off)
		code = exit_worse(code, failure_print(&follow->failure));
	else if (follow->failure.error != ERROR_NONE && !follow->count && !follow->refused_count)
		code = exit_worse(code, failure_print(&follow->failure));
	else if (follow->failure.error != ERROR_NONE && follow->failure.error != ERROR_NO_TARGET &&
		 !follow->refused_count)
		code = exit_worse(code, failure_print(&follow->failure));
	if (!code && !follow->count)
		code = fail(EXIT_NO_TARGET, "nothing was triggered; `profd ps` lists the processes");
	return follow->cancelled ? EXIT_CANCELLED : code;
}

/* "trace.json.gz" and ".rank3" make "trace.rank3.json.gz". */
static void insert(char *to, size_t bytes, const char *path, const char *mark)
{
	const char *slash = strrchr(path, '/');
	const char *base = slash ? slash + 1 : path;
	const char *dot = strrchr(base, '.');

	if (dot && strcmp(dot, ".gz") == 0) {
		const char *p = dot;

		while (p > base && p[-1] != '.')
			p--;
		if (p > base)
			dot = p - 1;
	}
	if (!dot)
		dot = base + strlen(base);
	snprintf(to, bytes, "%.*s%s%s", (int)(dot - path), path, mark, dot);
}

static bool same_rank(const struct follow *follow, const struct followed *one)
{
	for (size_t i = 0; i < follow->count; i++)
		if (follow->captures[i].rank == one->rank && follow->captures[i].pid != one->pid)
			return true;
	return false;
}

static bool several_cycles(const struct follow *follow, const struct followed *one)
{
	for (size_t i = 0; i < follow->count; i++)
		if (follow->captures[i].pid == one->pid && &follow->captures[i] != one)
			return true;
	return false;
}

/* Where this one goes: into the folder by a name of its own, or to the file that was named, marked where there are several. */
static int place(const struct follow *follow, const struct followed *one, struct capture *capture, const char *output,
		 char *path, size_t bytes)
{
	char mark[96] = "";

	if (folder_named(output)) {
		int error = folder_make(output);

		if (error)
			return folder_refuse(output, error);
		folder_file(output, capture, NULL, path, bytes);
		return EXIT_DONE;
	}
	if (follow->count > 1) {
		int n = one->rank >= 0 && !same_rank(follow, one)
				? snprintf(mark, sizeof mark, ".rank%lld", (long long)one->rank)
				: snprintf(mark, sizeof mark, ".%lld", (long long)one->pid);

		if (several_cycles(follow, one))
			snprintf(mark + n, sizeof mark - (size_t)n, ".%s", one->id);
	}
	insert(path, bytes, output, mark);
	return EXIT_DONE;
}

static int export_all(const struct arguments *a, struct follow *follow)
{
	const char *output = arguments_text(a, "output", NULL);
	bool force = arguments_has(a, "force");
	int code = EXIT_DONE;

	for (size_t i = 0; output && i < follow->count; i++) {
		struct followed *one = &follow->captures[i];
		struct daemons only = {.list = {follow->daemons->list[one->daemon]}, .count = 1};
		struct capture capture;
		char path[4096];
		int own;

		if (!one->captured || follow->open[one->daemon] || strcmp(one->status, "failed") == 0)
			continue;
		own = capture_open_id(&only, one->id, &capture);
		if (own == EXIT_DONE) {
			own = place(follow, one, &capture, output, path, sizeof path);
			if (own == EXIT_DONE)
				own = target_write(&capture, NULL, path, force);
			capture_close(&capture);
		}
		if (own == EXIT_DONE)
			json_add_text(one->captured, "output", path);
		code = exit_worse(code, own);
	}
	return code;
}

int command_trigger(struct arguments *arguments)
{
	struct daemons daemons;
	struct follow follow = {
		.daemons = &daemons, .follow = !arguments_has(arguments, "no-wait"), .window = window(arguments) != 0};
	cJSON *requests[DAEMONS_MAX] = {0};
	int code = check(arguments);

	if (code)
		return code;
	code = daemons_need(&daemons);
	if (code)
		return code;
	presence_await(&daemons, arguments->pids, arguments->pid_count);
	describe_wanted(arguments, follow.wanted, sizeof follow.wanted);
	follow.give_up_ns = timeout(arguments) + GRACE_NS;
	add_targets(arguments, &daemons, requests);
	follow_run(&follow, requests);
	for (unsigned i = 0; i < DAEMONS_MAX; i++)
		cJSON_Delete(requests[i]);
	if (arguments_has(arguments, "look")) {
		code = look_print(&follow, arguments_format(arguments));
	} else {
		code = export_all(arguments, &follow);
		trigger_print(&follow, arguments_format(arguments));
	}
	code = exit_worse(verdict(arguments, &follow), code);
	follow_deinit(&follow);
	daemons_deinit(&daemons);
	return code;
}
