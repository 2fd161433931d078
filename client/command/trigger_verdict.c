/* trigger_verdict.c - see trigger_verdict.h. */
#include "trigger_verdict.h"

#include "trigger_request.h"
#include "proto/base/array.h"

#include "client/link/forked.h"
#include "client/ui/json.h"
#include "client/ui/text.h"

#include "proto/message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

	return ORDER(one->error, other->error) ?: ORDER(one->pid, other->pid);
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

/* Prints one sentence for each kind of refusal, and the other processes to which it applies: a job may have many ranks. */
static int print_refused(const struct arguments *a, struct follow *follow)
{
	int code = EXIT_DONE;

	if (follow->refused_count)
		qsort(follow->refused, follow->refused_count, sizeof *follow->refused, by_error);
	for (size_t i = 0, n; i < follow->refused_count; i += n) {
		const struct failure *first = &follow->refused[i];
		char others[256] = "", pid[TEXT_FIGURE_BYTES];
		size_t used = 0, named = 0;

		/* --all means the processes that step. Launchers have the agent, too. */
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

/* Of those that showed no steps the children may be the ranks. */
static void tell_forked(const struct follow *follow)
{
	int64_t *pids = need(calloc(follow->refused_count + follow->count + 1, sizeof *pids));
	size_t count = 0;

	for (size_t i = 0; i < follow->refused_count; i++)
		if (follow->refused[i].error == ERROR_NO_STEPS)
			pids[count++] = follow->refused[i].pid;
	/* A dry run has no captures, and counts what it tells of. */
	for (size_t i = 0; i < follow->count && follow->follow; i++) {
		const cJSON *captured = follow->captures[i].captured;

		if (captured && capture_code(&follow->captures[i]) == EXIT_TIMED_OUT &&
		    json_number(captured, "steps_recorded", 0) <= 0)
			pids[count++] = follow->captures[i].pid;
	}
	forked_note(pids, count);
	free(pids);
}

static const char *next_after_timeout(const struct arguments *a)
{
	if (arguments_has(a, "step-range"))
		return "; did a range match --step-range? --duration 2s instead of it shows which ranges there are";
	if (arguments_has(a, "step-op"))
		return "; did an operator match --step-op? --duration 2s instead of it shows which operators there are";
	if (arguments_has(a, "step-optimizer"))
		return "; did an optimizer's class match --step-optimizer? `profd ps` names those that step";
	if (arguments_has(a, "phase"))
		return strcmp(arguments_text(a, "phase", ""), "train") == 0
			       ? "; is the loop in this phase now and then, and does it take its batches from torch's DataLoader? --timeout waits longer, "
				 "--unit batch takes the batches of every phase"
			       : "; is the loop in this phase now and then, under torch.no_grad() or torch.inference_mode() (without them its batches count as "
				 "training, also after net.eval(), if no function that asks for them is called validate(), test() or the like) and in no function that says otherwise, and does it take its batches from torch's DataLoader? --timeout waits longer, --unit batch "
				 "takes the batches of every phase";
	if (trigger_counts_epochs(a))
		return "; an epoch is seen from the begin of a new pass over torch's DataLoader that trains to the begin of the next one: an endless loader has "
		       "none, nor has one whose dataset is made anew. --timeout waits longer, --unit batch --steps N takes batches, --duration a window";
	if (*trigger_batches(a))
		return "; does its loop take batches from torch's DataLoader? --timeout waits longer, --duration needs no batches";
	return "; does the job step (`profd ps`)? --timeout waits longer, --duration needs no steps";
}

int trigger_verdict(const struct arguments *a, struct follow *follow)
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
	tell_forked(follow);
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
