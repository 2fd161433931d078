/* dry_run.c - see dry_run.h. */
#include "dry_run.h"

#include "client/link/follow.h"
#include "client/link/follow_rows.h"
#include "client/ui/json.h"
#include "client/ui/table.h"
#include "client/ui/text.h"
#include "trigger_request.h"
#include "trigger_verdict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The answers to one command line. Refusals are kept as those of a trigger, so that they are told and end alike. */
struct dry_run {
	const struct arguments *arguments;
	struct follow follow;
	cJSON *targets;
};

/* What is known of the cost, by the keys of "estimate". */
static const char *const kinds[] = {"measured", "at_most", "at_least"};
static const char *const kinds_by_command[] = {"measured_by_command", "at_most_by_command", "at_least_by_command"};
#define KINDS (sizeof kinds / sizeof *kinds)

static const cJSON *member(const cJSON *object, const char *key)
{
	return cJSON_GetObjectItemCaseSensitive(object, key);
}

static void take_row(struct daemon *daemon, const cJSON *row, int fd, void *context)
{
	struct dry_run *dry = context;
	const char *outcome = json_text(row, "outcome");

	if (fd >= 0)
		close(fd);
	if (reply_is_row(row, "together"))
		follow_take_together(&dry->follow, row);
	if (!reply_is_row(row, "target"))
		return;
	if (outcome && (strcmp(outcome, "would_record") == 0 || strcmp(outcome, "would_wait") == 0)) {
		cJSON *copy = need(cJSON_Duplicate(row, true));

		cJSON_DeleteItemFromObjectCaseSensitive(copy, "row");
		json_add_text(copy, "daemon", daemon->path);
		cJSON_AddItemToArray(dry->targets, copy);
		return;
	}
	follow_take_target(&dry->follow, (unsigned)(daemon - dry->follow.daemons->list), row);
}

static void ask(struct dry_run *dry, cJSON *const requests[DAEMONS_MAX])
{
	struct daemons *daemons = dry->follow.daemons;

	for (unsigned i = 0; i < daemons->count; i++) {
		struct failure failure;
		cJSON *request;

		if (!requests[i])
			continue;
		request = need(cJSON_Duplicate(requests[i], true));
		cJSON_ReplaceItemInObjectCaseSensitive(request, "op", need(cJSON_CreateString("estimate")));
		dry->follow.links[i].request = request;
		if (!daemon_query(&daemons->list[i], request, take_row, dry, &failure))
			failure_merge(&dry->follow.failure, &failure);
		dry->follow.links[i].request = NULL;
		cJSON_Delete(request);
	}
}

/* --- for people --- */

static void put_safe(const char *text)
{
	char *safe = text_safe(text);

	fputs(safe, stdout);
	free(safe);
}

static void put_words(const cJSON *words, const cJSON *without)
{
	const cJSON *word, *one;
	bool any = false;

	cJSON_ArrayForEach(word, words)
	{
		bool left_out = false;

		if (!cJSON_IsString(word))
			continue;
		cJSON_ArrayForEach(one, without)
		{
			const char *name = json_text(one, "collector");

			left_out |= name && strcmp(name, word->valuestring) == 0;
		}
		if (left_out)
			continue;
		fputs(any ? ", " : "", stdout);
		put_safe(word->valuestring);
		any = true;
	}
	fputs(any ? "" : "none", stdout);
}

static void put_count(double n, const char *what)
{
	char figure[TEXT_FIGURE_BYTES];

	printf("%s %s%s", text_count(figure, (int64_t)n), what, n == 1 ? "" : "s");
}

/* What ends its steps, if not the job's own. */
static void put_source(const struct arguments *a)
{
	static const char *const options[] = {"step-range", "step-op", "step-optimizer"};

	for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
		if (!arguments_has(a, options[i]))
			continue;
		printf(" of --%s ", options[i]);
		put_safe(arguments_text(a, options[i], ""));
	}
	if (arguments_has(a, "phase"))
		printf(" (batches of --phase %s)", arguments_text(a, "phase", ""));
	else if (*trigger_batches(a))
		printf(" (%s)", trigger_counts_epochs(a) ? "epochs" : "batches");
}

static void print_steps(const struct arguments *a, const cJSON *target)
{
	double first = json_number(target, "first_step", 0), last = json_number(target, "last_step", 0);
	double warmup = json_number(target, "warmup", 0), steps = json_number(target, "steps", 0);
	double cycles = json_number(target, "cycles", 0);
	char figure[TEXT_FIGURE_BYTES];

	fputs("  would record  ", stdout);
	if (trigger_window(a)) {
		printf("the next %s\n", text_duration(figure, trigger_window(a)));
		return;
	}
	if (first > 0 && last > first)
		printf("steps %.0f to %.0f", first, last);
	else if (first > 0)
		printf("step %.0f", first);
	else
		printf("the next "), put_count(steps, "step"), put_source(a);
	if (cJSON_IsTrue(member(target, "about")))
		fputs(", if it were sent now", stdout);
	if (warmup > 0)
		fputs(", after ", stdout), put_count(warmup, "step"), fputs(" of warm-up", stdout);
	if (!cJSON_IsNumber(member(target, "cycles")))
		fputs("; then again, until it is cancelled or --timeout", stdout);
	else if (cycles > 1)
		printf("; %.0f cycles", cycles);
	putchar('\n');
}

static void print_collectors(const cJSON *target)
{
	const cJSON *off = member(target, "not_on"), *one;

	fputs("  collectors    ", stdout);
	put_words(member(target, "collectors"), off);
	putchar('\n');
	cJSON_ArrayForEach(one, off)
	{
		const char *word = json_text(one, "collector"), *id = json_text(one, "capture_id"),
			   *why = json_text(one, "sentence");

		fputs("                not ", stdout);
		put_safe(word ? word : "?");
		fputs(", as in capture ", stdout);
		put_safe(id ? id : "?");
		fputs(": ", stdout);
		put_safe(why && *why ? why : "it did not say why");
		putchar('\n');
	}
}

/* "+0.4 ms a step (1.2 %), 3,100 events a step" */
static void put_figures(const cJSON *figures)
{
	double more = json_number(figures, "step_more_ns", 0), before = json_number(figures, "step_before_ns", 0);
	char figure[TEXT_FIGURE_BYTES];

	if (!cJSON_IsNumber(member(figures, "step_more_ns")) || before <= 0)
		fputs("a time that was not measured, ", stdout);
	else if (more > 0)
		printf("+%s a step (%.1f %%), ", text_duration(figure, (int64_t)more), 100 * more / before);
	else
		printf("no time that shows (%s a step), ", text_duration(figure, (int64_t)more));
	put_count(json_number(figures, "events_per_step", 0), "event");
	fputs(" a step", stdout);
}

static void put_capture(const cJSON *figures)
{
	const char *id = json_text(figures, "capture_id");
	char size[TEXT_FIGURE_BYTES];

	put_safe(id ? id : "?");
	fputs(" (", stdout);
	put_count(json_number(figures, "steps", 0), "step");
	printf(", a file of %s)", text_bytes(size, (int64_t)json_number(figures, "bytes", 0)));
}

static void print_bound(const cJSON *figures, const char *word, const char *of, const char *differs, bool *any)
{
	if (!cJSON_IsObject(figures))
		return;
	printf("%s%s ", *any ? "                " : "", word);
	*any = true;
	put_figures(figures);
	fputs(", by capture ", stdout);
	put_capture(figures);
	printf("%s, which had %s ", of, differs);
	put_words(member(figures, "differs_by"), NULL);
	putchar('\n');
}

/* `of`: whose captures tell it. False: none does. */
static bool print_known(const cJSON *estimate, const char *of)
{
	const cJSON *measured = member(estimate, "measured");
	bool any = false;

	if (cJSON_IsObject(measured)) {
		put_figures(measured);
		fputs(", as in capture ", stdout);
		put_capture(measured);
		printf("%s, which had these collectors\n", of);
		return true;
	}
	print_bound(member(estimate, "at_most"), "at most", of, "more:", &any);
	print_bound(member(estimate, "at_least"), "at least", of, "not:", &any);
	return any;
}

static void print_cost(const cJSON *target)
{
	const cJSON *estimate = member(target, "estimate");

	fputs("  would cost    ", stdout);
	if (print_known(estimate, "") ||
	    print_known(member(estimate, "by_command"), " of another process with the same command"))
		return;
	if (json_number(estimate, "captures", 0) > 0)
		fputs("not known yet: no complete capture of this process can be compared (other collectors, steps or "
		      "options); a trigger of one step with these options tells\n",
		      stdout);
	else
		fputs("not known yet: there is no complete capture of this process, nor of another one with the same "
		      "command; a trigger of one step with these options tells\n",
		      stdout);
}

static void print_target(const struct dry_run *dry, const cJSON *target)
{
	const char *name = json_text(target, "name");
	char pid[TEXT_FIGURE_BYTES], step[TEXT_FIGURE_BYTES];
	double step_ns = json_number(target, "step_ns", 0);

	put_safe(name ? name : "?");
	printf(" (%s", text_pid(pid, (int64_t)json_number(target, "pid", 0)));
	if (cJSON_IsNumber(member(target, "rank")))
		printf(", rank %.0f", json_number(target, "rank", 0));
	if (step_ns > 0)
		printf(", a step takes %s", text_duration(step, (int64_t)step_ns));
	fputs(")\n", stdout);
	if (strcmp(json_text(target, "outcome"), "would_wait") == 0) {
		fputs("  has shown no steps yet: the trigger would wait for them\n", stdout);
		return;
	}
	print_steps(dry->arguments, target);
	print_collectors(target);
	print_cost(target);
}

static void print_people(const struct dry_run *dry)
{
	const cJSON *target;
	char figure[TEXT_FIGURE_BYTES];

	cJSON_ArrayForEach(target, dry->targets) print_target(dry, target);
	if (arguments_has(dry->arguments, "wait-for"))
		printf("%s would be waited for, for %s\n",
		       cJSON_GetArraySize(dry->targets) ? "further processes" : "nothing matches now; processes",
		       text_duration(figure, arguments_number(dry->arguments, "wait-for", 0)));
}

/* --- for programs --- */

static void print_json(struct dry_run *dry)
{
	cJSON *object = json_new("dry_run");

	cJSON_AddItemToObject(object, "targets", dry->targets);
	dry->targets = NULL;
	follow_add_others(object, &dry->follow);
	json_print(object);
}

enum {
	K_PID,
	K_RANK,
	K_NAME,
	K_OUTCOME,
	K_FIRST,
	K_LAST,
	K_KIND,
	K_CAPTURE,
	K_BEFORE,
	K_DURING,
	K_MORE,
	K_STEPS,
	K_EVENTS,
	K_BYTES,
	K_COUNT
};

static const struct column columns[] = {
	[K_PID] = {"pid", "PID", COLUMN_NUMBER, 0},
	[K_RANK] = {"rank", "RANK", COLUMN_NUMBER, 0},
	[K_NAME] = {"name", "NAME", COLUMN_TEXT, 0},
	[K_OUTCOME] = {"outcome", "OUTCOME", COLUMN_TEXT, 0},
	[K_FIRST] = {"first_step", "FIRST", COLUMN_NUMBER, 0},
	[K_LAST] = {"last_step", "LAST", COLUMN_NUMBER, 0},
	[K_KIND] = {"estimate", "ESTIMATE", COLUMN_TEXT, 0},
	[K_CAPTURE] = {"capture_id", "CAPTURE", COLUMN_TEXT, 0},
	[K_BEFORE] = {"step_before_ns", "STEP BEFORE", COLUMN_DURATION, 0},
	[K_DURING] = {"step_during_ns", "DURING", COLUMN_DURATION, 0},
	[K_MORE] = {"step_more_ns", "MORE", COLUMN_MORE, 0},
	[K_STEPS] = {"steps", "STEPS", COLUMN_COUNT, 0},
	[K_EVENTS] = {"events_per_step", "EVENTS", COLUMN_COUNT, 0},
	[K_BYTES] = {"bytes", "FILE", COLUMN_BYTES, 0},
};

static void add_line(struct table *table, const cJSON *target, const char *kind, const cJSON *figures)
{
	table_add(table);
	for (size_t c = K_PID; c < K_KIND; c++)
		table_set_member(table, c, target, columns[c].key);
	table_set_text(table, K_KIND, kind);
	for (size_t c = K_CAPTURE; c < K_COUNT; c++)
		table_set_member(table, c, figures, columns[c].key);
}

/* A line for each figure that there is; one for a process of which none is known. */
static void print_csv(const struct dry_run *dry)
{
	struct table *table = table_new(columns, K_COUNT);
	const cJSON *target;

	cJSON_ArrayForEach(target, dry->targets)
	{
		size_t before = table_rows(table);

		for (size_t i = 0; i < KINDS; i++) {
			const cJSON *estimate = member(target, "estimate"), *figures = member(estimate, kinds[i]),
				    *by_command = member(member(estimate, "by_command"), kinds[i]);

			if (cJSON_IsObject(figures))
				add_line(table, target, kinds[i], figures);
			if (cJSON_IsObject(by_command))
				add_line(table, target, kinds_by_command[i], by_command);
		}
		if (table_rows(table) == before)
			add_line(table, target, "not_known", NULL);
	}
	table_csv(table, stdout, 0);
	table_free(table);
}

int dry_run(const struct arguments *arguments, struct daemons *daemons, cJSON *const requests[DAEMONS_MAX])
{
	struct dry_run dry = {.arguments = arguments, .follow = {.daemons = daemons}};
	int code;

	dry.targets = need(cJSON_CreateArray());
	ask(&dry, requests);
	/* What is told of is not nothing. */
	dry.follow.count = (size_t)cJSON_GetArraySize(dry.targets) +
			   (!dry.follow.failure.error && arguments_has(arguments, "wait-for"));
	if (arguments_format(arguments) == FORMAT_JSON)
		print_json(&dry);
	else if (arguments_format(arguments) == FORMAT_CSV)
		print_csv(&dry);
	else
		print_people(&dry);
	code = trigger_verdict(arguments, &dry.follow);
	dry.follow.count = 0;
	follow_deinit(&dry.follow);
	cJSON_Delete(dry.targets);
	return code;
}
