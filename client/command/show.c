/* show.c - `profd show`: a capture file as tables. */
#include "client/reader/capture.h"
#include "client/report/about.h"
#include "client/report/losses.h"
#include "client/report/query.h"
#include "client/report/recorded.h"
#include "client/report/verdict_json.h"
#include "client/report/views.h"
#include "client/ui/failure.h"
#include "client/ui/json.h"
#include "client/ui/print.h"
#include "client/ui/text.h"
#include "client/verbs/arguments.h"
#include "client/verbs/commands.h"

#include <stdlib.h>
#include <string.h>

#define TABLE_LIMIT 15

struct show {
	struct capture capture;
	struct report_options options;
	struct screen screen;
	const struct view *chosen; /* --by; NULL: all */
	size_t limit;
	bool simulated; /* the devices were simulated */
};

static void title(const struct show *show, const char *text)
{
	printf("\n%s%s%s\n", screen_bold(&show->screen), text, screen_plain(&show->screen));
}

static void line(const char *key, const char *text)
{
	char *safe = text_safe(text);

	printf("  %-9s %s\n", key, safe);
	free(safe);
}

static void print_header(const struct show *show, const cJSON *about)
{
	const char *status = json_text(about, "status");
	const char *reason = json_text(about, "reason");
	const char *job = json_text(about, "job");
	const char *label = json_text(about, "label");
	const char *source = json_text(about, "step_source");
	const char *torch = json_text(about, "torch_version");
	const char *started = json_text(about, "started_at");
	const char *user = json_text(about, "user");
	const char *name = json_text(about, "name");
	const char *host = json_text(about, "host");
	const char *command = json_text(about, "command");
	const char *id = json_text(about, "capture_id");
	double rank = json_number(about, "rank", -1), world = json_number(about, "world_size", -1);
	bool complete = status && strcmp(status, "complete") == 0;
	char text[1024], what[96], rank_text[64] = "", when[20], pid[TEXT_FIGURE_BYTES];

	printf("%scapture %s%s  %s%s%s%s%s\n", screen_bold(&show->screen), id ? id : "?", screen_plain(&show->screen),
	       complete ? "" : screen_warn(&show->screen), status ? status : "?", reason && *reason ? ": " : "",
	       reason ? reason : "", complete ? "" : screen_plain(&show->screen));
	if (rank >= 0 && world > 0)
		snprintf(rank_text, sizeof rank_text, ", rank %.0f of %.0f", rank, world);
	else if (rank >= 0)
		snprintf(rank_text, sizeof rank_text, ", rank %.0f", rank);
	if (json_number(about, "pid", 0) > 0)
		snprintf(pid, sizeof pid, "%.0f", json_number(about, "pid", 0));
	else
		text_pid(pid, 0);
	snprintf(text, sizeof text, "%s %.128s%s%s%.128s%s%.64s%s%.128s", pid, name ? name : "", rank_text,
		 user ? ", user " : "", user ? user : "", host && *host ? ", host " : "", host ? host : "",
		 job && *job ? ", job " : "", job && *job ? job : "");
	line("process", text);
	if (command && *command)
		line("command", command);
	/* To the second; "T" and the fraction are for programs. */
	snprintf(when, sizeof when, "%s", started ? started : "at an unknown time");
	if (strlen(when) > 18 && when[10] == 'T')
		when[10] = ' ';
	if (source && strcmp(source, "duration") == 0)
		snprintf(what, sizeof what, "a window of time");
	else
		snprintf(what, sizeof what, "%.0f of %.0f steps%s%.32s", json_number(about, "steps_recorded", 0),
			 json_number(about, "steps_wanted", 0), source ? ", told by " : "", source ? source : "");
	snprintf(text, sizeof text, "%s UTC, %s%s%.32s%s%.128s%s", when, what, torch && *torch ? ", torch " : "",
		 torch && *torch ? torch : "", label && *label ? ", label " : "", label && *label ? label : "",
		 show->simulated ? ", SIMULATED GPU" : "");
	line("recorded", text);
}

static void print_capture_notes(struct reader *reader)
{
	cJSON *notes = about_notes(reader);
	const cJSON *note;

	cJSON_ArrayForEach(note, notes)
	{
		line("note", note->valuestring);
	}
	cJSON_Delete(notes);
}

static void print_view(struct show *show, const struct view *view)
{
	const struct reader *reader = &show->capture.reader;
	bool whole = !show->chosen, refused = report_refused(reader, view->activities);
	struct table *table;
	char heading[96];

	/* It is said only once that nothing of the device was recorded. */
	if (whole && view->flags & VIEW_DEVICE && !(view->flags & VIEW_TELLS) && !refused &&
	    !view_recorded(reader, view))
		return;
	table = view->table(reader, &show->options);
	if (table_rows(table) || refused || !(whole && view->flags & VIEW_RARE)) {
		snprintf(heading, sizeof heading, "%s%s", view->heading,
			 view->flags & VIEW_DEVICE && show->simulated ? " (simulated GPU)" : "");
		title(show, heading);
		if (table_rows(table)) {
			table_print(table, &show->screen, view->flags & (VIEW_ALWAYS | VIEW_WHOLE) ? 0 : show->limit);
		} else if (view_recorded(reader, view)) {
			puts("  none");
		} else {
			char *text = view_absence(reader, view);

			printf("  %s\n", text);
			free(text);
		}
	}
	table_free(table);
}

/* What was dropped and what was not recorded qualify whatever else is shown. */
static bool is_shown(const struct show *show, const struct view *view)
{
	if (!show->chosen || show->chosen == view)
		return true;
	return view->flags & VIEW_ALWAYS && !(show->chosen->flags & VIEW_APART);
}

static void print_tables(struct show *show)
{
	cJSON *about = about_capture(&show->capture);
	size_t count;
	const struct view *views = view_table(&count);

	print_header(show, about);
	print_capture_notes(&show->capture.reader);
	if (show->options.step) {
		char text[64];

		snprintf(text, sizeof text, "only step %lld", (long long)show->options.step);
		line("shown", text);
	}
	for (size_t i = 0; i < count; i++)
		if (is_shown(show, &views[i]))
			print_view(show, &views[i]);
	if (!show->chosen) {
		struct table *table = report_collectors(&show->capture.reader);

		title(show, "Collectors");
		table_print(table, &show->screen, 0);
		table_free(table);
	}
	cJSON_Delete(about);
}

static void add_rows(cJSON *object, const char *key, struct table *table, size_t limit)
{
	cJSON_AddItemToObject(object, key, table_json(table, limit));
	table_free(table);
}

static void add_single(cJSON *object, const char *key, struct table *table)
{
	cJSON *rows = table_json(table, 1);

	cJSON_AddItemToObject(object, key, cJSON_DetachItemFromArray(rows, 0));
	cJSON_Delete(rows);
	table_free(table);
}

/* The findings under their key, and beside them what holds for all. */
static void add_verdict(cJSON *object, const char *key, cJSON *verdict)
{
	cJSON_AddItemToObject(object, key, cJSON_DetachItemFromObject(verdict, "findings"));
	cJSON_AddItemToObject(object, "verdict", verdict);
}

static void add_view(cJSON *object, const struct show *show, const struct view *view)
{
	const struct reader *reader = &show->capture.reader;

	/* A table of the device that was not recorded is null; one of the host is empty. */
	if (view->flags & (VIEW_DEVICE | VIEW_LOOKED) && !view_recorded(reader, view))
		need(cJSON_AddNullToObject(object, view->key));
	else if (strcmp(view->name, "breakdown") == 0)
		cJSON_AddItemToObject(object, view->key, breakdown_json(reader, &show->options));
	else if (strcmp(view->name, "findings") == 0)
		add_verdict(object, view->key, verdict_json(reader, &show->options));
	else if (view->flags & VIEW_SINGLE)
		add_single(object, view->key, view->table(reader, &show->options));
	else
		add_rows(object, view->key, view->table(reader, &show->options),
			 view->flags & (VIEW_ALWAYS | VIEW_WHOLE) ? 0 : show->limit);
}

static void print_json(struct show *show)
{
	cJSON *object = json_new("show");
	size_t count;
	const struct view *views = view_table(&count);

	cJSON_ReplaceItemInObject(object, "schema", need(cJSON_CreateString("profd.show/2")));
	cJSON_AddItemToObject(object, "capture", about_capture(&show->capture));
	cJSON_AddItemToObject(object, "notes", about_notes(&show->capture.reader));
	for (size_t i = 0; i < count; i++) {
		/* Which collectors ran stands before what they cost. */
		if (views[i].flags & VIEW_APART)
			add_rows(object, "collectors", report_collectors(&show->capture.reader), 0);
		add_view(object, show, &views[i]);
	}
	json_print(object);
}

static int print_csv(struct show *show)
{
	const struct reader *reader = &show->capture.reader;
	struct table *table;

	if (!show->chosen)
		return fail(EXIT_USAGE, "CSV holds one table; name it with --by (operators, kernels, steps, ...)");
	table = show->chosen->table(reader, &show->options);
	table_csv(table, stdout, show->limit);
	table_free(table);
	if (!view_recorded(reader, show->chosen)) {
		char *text = view_absence(reader, show->chosen);

		note("%s: %s", show->chosen->name, text);
		free(text);
	}
	return EXIT_DONE;
}

static int show_one(struct arguments *arguments, const char *which, bool first)
{
	struct show show = {.screen = screen_output()};
	enum output_format format = arguments_format(arguments);
	int64_t step = arguments_number(arguments, "step", 0);
	int code = capture_open(which, &show.capture);

	if (code)
		return code;
	show.chosen = view_find(arguments_text(arguments, "by", format == FORMAT_CSV ? "operators" : "all"));
	show.options.finding = arguments_number(arguments, "finding", 0);
	if (show.options.finding)
		show.chosen = view_find("findings");
	show.options.alone = show.chosen;
	show.options.summary = show.capture.summary;
	show.limit = (size_t)arguments_number(arguments, "limit", format == FORMAT_TABLE ? TABLE_LIMIT : 0);
	show.options.sort_by = arguments_text(arguments, "sort-by", NULL);
	show.options.shapes = arguments_has(arguments, "group-by-shapes");
	show.simulated = report_simulated(&show.capture.reader);
	if (step) {
		show.options.step = report_step(&show.capture.reader, step);
		if (!show.options.step)
			code = fail(EXIT_NO_TARGET,
				    "the capture%s%s has no step %lld; `profd show --by steps` lists its steps",
				    which ? " " : "", which ? which : "", (long long)step);
	}
	if (code == EXIT_DONE && show.options.sort_by && report_key_is_device(show.options.sort_by) &&
	    !report_gpu(&show.capture.reader)) {
		note("times of the device were not recorded; --sort-by %s has nothing to sort by",
		     show.options.sort_by);
		show.options.sort_by = NULL;
	}
	if (code == EXIT_DONE) {
		switch (format) {
		case FORMAT_TABLE:
			if (!first)
				putchar('\n');
			print_tables(&show);
			break;
		case FORMAT_JSON:
			print_json(&show);
			break;
		case FORMAT_CSV:
			code = print_csv(&show);
			break;
		}
	}
	capture_close(&show.capture);
	return code;
}

int command_show(struct arguments *arguments)
{
	int code = EXIT_DONE;

	if (arguments->word_count > 1 && arguments_format(arguments) == FORMAT_CSV)
		return fail(EXIT_USAGE, "CSV holds one table of one capture; name a single one");
	if (arguments->word_count == 0)
		return show_one(arguments, NULL, true);
	for (size_t i = 0; i < arguments->word_count; i++)
		code = exit_worse(code, show_one(arguments, arguments->words[i], i == 0));
	return code;
}
