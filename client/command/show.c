/* show.c - `profd show`: what a capture file holds. */
#include "client/report/about.h"
#include "client/report/losses.h"
#include "client/report/query.h"
#include "client/report/recorded.h"
#include "client/report/verdict_json.h"
#include "client/ui/failure.h"
#include "client/ui/json.h"
#include "client/ui/pager.h"
#include "client/ui/print.h"
#include "client/ui/text.h"
#include "client/verbs/arguments.h"
#include "client/verbs/commands.h"
#include "answer.h"
#include "tables.h"

#include <stdlib.h>
#include <string.h>

#define TABLE_LIMIT 15

/* What --by says besides the name of a view. */
enum extent { EXTENT_ANSWER, EXTENT_VIEW, EXTENT_ALL };

struct show {
	struct capture capture;
	struct tables tables;
	enum extent extent;
};

static void line(const struct screen *screen, const char *key, const char *text)
{
	char *safe = text_safe(text);

	printf("  %-9s ", key);
	print_wrapped(stdout, safe, 12, screen->width > 40 ? screen->width - 12 : SIZE_MAX, 0);
	putchar('\n');
	free(safe);
}

static void print_header(const struct tables *tables, const cJSON *about)
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

	printf("%scapture %s%s  %s%s%s%s%s\n", screen_bold(&tables->screen), id ? id : "?",
	       screen_plain(&tables->screen), complete ? "" : screen_warn(&tables->screen), status ? status : "?",
	       reason && *reason ? ": " : "", reason ? reason : "", complete ? "" : screen_plain(&tables->screen));
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
	line(&tables->screen, "process", text);
	if (command && *command)
		line(&tables->screen, "command", command);
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
		 tables->simulated ? ", SIMULATED GPU" : "");
	line(&tables->screen, "recorded", text);
}

static void print_capture_notes(const struct tables *tables)
{
	cJSON *notes = about_notes(&tables->capture->reader);
	const cJSON *note;

	cJSON_ArrayForEach(note, notes)
	{
		line(&tables->screen, "note", note->valuestring);
	}
	cJSON_Delete(notes);
}

/* What was dropped and what was not recorded qualify whatever else is shown. */
static bool is_shown(const struct show *show, const struct view *view)
{
	const struct view *chosen = show->tables.chosen;

	if (!chosen || chosen == view)
		return true;
	return view->flags & VIEW_ALWAYS && !(chosen->flags & VIEW_APART);
}

/* Which tables are not shown, because they cannot be cut. */
static void print_left_out(const struct tables *tables, enum extent extent)
{
	char text[640] = "", cuts[64];
	unsigned uncut = 0;
	size_t count, n = 0;
	const struct view *views = view_table(&count);

	for (size_t i = 0; i < count && n < sizeof text; i++)
		if (tables_left_out(tables, &views[i]) && (extent == EXTENT_ALL || answer_has(&views[i]))) {
			n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? ", " : "", views[i].name);
			uncut |= tables_cuts(tables) & ~views[i].cuts;
		}
	if (n && n < sizeof text)
		snprintf(text + n, sizeof text - n, ": %s cannot cut them (profd help filters)",
			 cuts_text(uncut, cuts, sizeof cuts));
	if (n)
		line(&tables->screen, "left out", text);
}

/* What part of the capture is shown. */
static void print_part(const struct tables *tables, enum extent extent)
{
	char text[320], part[256];

	filter_text(&tables->filter, part, sizeof part);
	if (!tables->options.step && !*part)
		return;
	if (tables->options.step)
		snprintf(text, sizeof text, "only step %lld%s%s", (long long)tables->options.step, *part ? ", " : "",
			 part);
	else
		snprintf(text, sizeof text, "only %s", part);
	line(&tables->screen, "shown", text);
	if (extent != EXTENT_VIEW)
		print_left_out(tables, extent);
}

static void print_tables(struct show *show, const cJSON *about)
{
	struct tables *tables = &show->tables;
	size_t count;
	const struct view *views = view_table(&count);

	if (show->extent == EXTENT_ALL)
		print_header(tables, about);
	else
		answer_line(tables, about);
	print_capture_notes(&show->tables);
	print_part(tables, show->extent);
	for (size_t i = 0; i < count && tables->code == EXIT_DONE; i++)
		if (is_shown(show, &views[i]))
			tables_print(tables, &views[i], tables->limit);
	if (show->extent == EXTENT_ALL && tables->code == EXIT_DONE) {
		struct table *table = report_collectors(&show->capture.reader);

		tables_title(tables, "Collectors");
		table_print(table, &tables->screen, 0);
		table_free(table);
	}
}

static void print_people(struct show *show)
{
	cJSON *about = about_capture(&show->capture);

	if (show->extent == EXTENT_ANSWER) {
		answer_line(&show->tables, about);
		print_capture_notes(&show->tables);
		print_part(&show->tables, show->extent);
		answer_print(&show->tables, about);
	} else {
		print_tables(show, about);
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
	cJSON *row = cJSON_DetachItemFromArray(rows, 0);

	cJSON_AddItemToObject(object, key, row ? row : need(cJSON_CreateNull()));
	cJSON_Delete(rows);
	table_free(table);
}

/* The findings under their key, and beside them what holds for all. */
static void add_verdict(cJSON *object, const char *key, cJSON *verdict)
{
	cJSON_AddItemToObject(object, key, cJSON_DetachItemFromObject(verdict, "findings"));
	cJSON_AddItemToObject(object, "verdict", verdict);
}

static void add_view(cJSON *object, struct tables *tables, const struct view *view)
{
	bool recorded = view_recorded(&tables->capture->reader, view);
	struct table *table;

	/* What holds for all findings stands beside them. */
	if (tables_left_out(tables, view) && strcmp(view->name, "findings") == 0)
		need(cJSON_AddNullToObject(object, "verdict"));
	if (tables_left_out(tables, view) || (view->flags & (VIEW_DEVICE | VIEW_LOOKED | VIEW_BLOCKS) && !recorded)) {
		need(cJSON_AddNullToObject(object, view->key));
		return;
	}
	tables->options.filter = tables_filter(tables);
	if (strcmp(view->name, "breakdown") == 0) {
		cJSON_AddItemToObject(object, view->key, breakdown_json(&tables->capture->reader, &tables->options));
		return;
	}
	if (strcmp(view->name, "findings") == 0) {
		add_verdict(object, view->key, verdict_json(&tables->capture->reader, &tables->options));
		return;
	}
	table = tables_make(tables, view);
	if (!table)
		return;
	/* If a daemon died, there may be rows without a word on the collector that wrote them. */
	if (!recorded && !table_rows(table)) {
		table_free(table);
		need(cJSON_AddNullToObject(object, view->key));
	} else if (view->flags & VIEW_SINGLE) {
		add_single(object, view->key, table);
	} else {
		add_rows(object, view->key, table, view->flags & (VIEW_ALWAYS | VIEW_WHOLE) ? 0 : tables->limit);
	}
}

/* Keys of the tables that are null because they cannot be cut to the part that was asked for; null: no part was. */
static void add_uncut(cJSON *object, const struct tables *tables)
{
	size_t count;
	const struct view *views = view_table(&count);
	cJSON *uncut;

	if (!tables_cuts(tables)) {
		need(cJSON_AddNullToObject(object, "uncut"));
		return;
	}
	uncut = need(cJSON_AddArrayToObject(object, "uncut"));
	for (size_t i = 0; i < count; i++)
		if (tables_left_out(tables, &views[i]))
			cJSON_AddItemToArray(uncut, need(cJSON_CreateString(views[i].key)));
}

static void print_json(struct show *show)
{
	cJSON *object = json_new("show");
	size_t count;
	const struct view *views = view_table(&count);

	cJSON_ReplaceItemInObject(object, "schema", need(cJSON_CreateString("profd.show/2")));
	cJSON_AddItemToObject(object, "capture", about_capture(&show->capture));
	cJSON_AddItemToObject(object, "notes", about_notes(&show->capture.reader));
	add_uncut(object, &show->tables);
	for (size_t i = 0; i < count && show->tables.code == EXIT_DONE; i++) {
		/* Which collectors ran stands before what they cost. */
		if (views[i].flags & VIEW_APART)
			add_rows(object, "collectors", report_collectors(&show->capture.reader), 0);
		add_view(object, &show->tables, &views[i]);
	}
	if (show->tables.code == EXIT_DONE)
		json_print(object);
	else
		cJSON_Delete(object);
}

static void print_csv(struct show *show)
{
	struct tables *tables = &show->tables;
	const struct reader *reader = &show->capture.reader;
	char *absence;
	struct table *table = tables_make(tables, tables->chosen);

	if (!table)
		return;
	table_csv(table, stdout, tables->limit);
	table_free(table);
	if (!view_recorded(reader, tables->chosen)) {
		absence = view_absence(reader, tables->chosen);
		note("%s: %s", tables->chosen->name, absence);
		free(absence);
	}
}

/* Can each table that --by names be cut by the options that are given? JSON takes several tables. */
static int check_cuts(const struct arguments *arguments, const char *by)
{
	char why[FAILURE_TEXT_BYTES];
	unsigned cuts = 0;

	for (unsigned bit = 0; bit < CUT_COUNT; bit++)
		cuts |= arguments_has(arguments, cut_option(bit)) ? 1u << bit : 0;
	for (size_t i = 0; i <= arguments->given_count; i++) {
		bool named = i < arguments->given_count && strcmp(arguments->given[i].row->name, "by") == 0;
		const struct view *view = view_find(named ? arguments->given[i].text : by);

		if (view && view_refuses(view, cuts, why, sizeof why))
			return fail(EXIT_USAGE, "%s", why);
	}
	return EXIT_DONE;
}

/* Does --where make sense, for this table? */
static int check_where(const struct arguments *arguments, const char *by)
{
	const struct view *view = view_find(by);
	char why[FAILURE_TEXT_BYTES];
	struct where *where;

	if (!view)
		return fail(EXIT_USAGE, "--where names columns of one table; name the table with --by (operators, "
					"kernels, steps, ...)");
	if (view->flags & VIEW_NESTED && arguments_format(arguments) == FORMAT_JSON)
		return fail(EXIT_USAGE,
			    "--where cannot cut the table %s in JSON, where it is no list of rows; --format csv has "
			    "it as one",
			    view->name);
	where = where_read(arguments_text(arguments, "where", ""), why, sizeof why);
	if (!where)
		return fail(EXIT_USAGE, "%s", why);
	where_free(where);
	return EXIT_DONE;
}

/* What makes no sense, whatever the captures hold. */
static int check(const struct arguments *arguments)
{
	enum output_format format = arguments_format(arguments);
	const char *by = arguments_text(arguments, "by", format == FORMAT_CSV ? "operators" : "");
	char why[FAILURE_TEXT_BYTES];
	size_t tables = 0;
	int code;

	if (arguments_has(arguments, "finding"))
		by = "findings";
	for (size_t i = 0; i < arguments->given_count; i++)
		tables += strcmp(arguments->given[i].row->name, "by") == 0;
	if (tables > 1 && format != FORMAT_JSON)
		return fail(EXIT_USAGE,
			    "--by names one table; --by all prints every one, and --format json has them all");
	if (arguments->word_count > 1 && format == FORMAT_CSV)
		return fail(EXIT_USAGE, "CSV holds one table of one capture; name a single one");
	if (format == FORMAT_CSV && !view_find(by))
		return fail(EXIT_USAGE, "CSV holds one table; name it with --by (operators, kernels, steps, ...)");
	if (arguments_has(arguments, "phase") &&
	    !filter_phases(arguments_text(arguments, "phase", ""), why, sizeof why))
		return fail(EXIT_USAGE, "%s", why);
	code = check_cuts(arguments, by);
	return code == EXIT_DONE && arguments_has(arguments, "where") ? check_where(arguments, by) : code;
}

/* Puts the options into what is printed. Returns EXIT_DONE, or says what is wrong. */
static int choose(struct show *show, const struct arguments *arguments, const char *which)
{
	struct tables *tables = &show->tables;
	enum output_format format = arguments_format(arguments);
	const char *by = arguments_text(arguments, "by", format == FORMAT_CSV ? "operators" : "");
	int64_t step = arguments_number(arguments, "step", 0);
	char why[FAILURE_TEXT_BYTES];

	tables->chosen = view_find(arguments_has(arguments, "finding") ? "findings" : by);
	tables->options.finding = arguments_number(arguments, "finding", 0);
	show->extent = tables->chosen ? EXTENT_VIEW : *by ? EXTENT_ALL : EXTENT_ANSWER;
	tables->options.alone = tables->chosen;
	tables->limit = (size_t)arguments_number(arguments, "limit", format == FORMAT_TABLE ? TABLE_LIMIT : 0);
	tables->options.limit = tables->limit;
	tables->options.sort_by = arguments_text(arguments, "sort-by", NULL);
	tables->options.shapes = arguments_has(arguments, "group-by-shapes");
	tables->options.stack = arguments_number(arguments, "group-by-stack", 0);
	tables->filter = (struct filter){
		arguments_text(arguments, "range", NULL), arguments_number(arguments, "thread", -1),
		arguments_number(arguments, "device", -1), arguments_number(arguments, "stream", -1), 0};
	if (arguments_has(arguments, "phase"))
		tables->filter.phases = filter_phases(arguments_text(arguments, "phase", ""), why, sizeof why);
	if (arguments_has(arguments, "where"))
		tables->where = where_read(arguments_text(arguments, "where", ""), why, sizeof why);
	if (arguments_has(arguments, "full-names"))
		tables->screen.width = 0;
	if (tables->options.shapes && tables->options.stack)
		return fail(EXIT_USAGE, "--group-by-stack does not go with --group-by-shapes");
	if (step) {
		tables->options.step = report_step(&show->capture.reader, step);
		if (!tables->options.step)
			return fail(EXIT_NO_TARGET,
				    "the capture%s%s has no step %lld; `profd show --by steps` lists its steps",
				    which ? " " : "", which ? which : "", (long long)step);
	}
	if (tables->options.sort_by && report_key_is_device(tables->options.sort_by) &&
	    !report_gpu(&show->capture.reader)) {
		note("times of the device were not recorded; --sort-by %s has nothing to sort by",
		     tables->options.sort_by);
		tables->options.sort_by = NULL;
	}
	return filter_check(&show->capture.reader, &tables->filter);
}

static int show_one(struct arguments *arguments, const char *which, bool first, const struct screen *screen)
{
	struct show show = {0};
	int code = capture_open(which, &show.capture);

	if (code)
		return code;
	tables_init(&show.tables, &show.capture);
	show.tables.screen = *screen;
	show.tables.which = which;
	code = choose(&show, arguments, which);
	if (code == EXIT_DONE) {
		switch (arguments_format(arguments)) {
		case FORMAT_TABLE:
			if (!first)
				putchar('\n');
			print_people(&show);
			break;
		case FORMAT_JSON:
			print_json(&show);
			break;
		case FORMAT_CSV:
			print_csv(&show);
			break;
		}
		code = show.tables.code;
	}
	tables_deinit(&show.tables);
	capture_close(&show.capture);
	return code;
}

int command_show(struct arguments *arguments)
{
	/* Before standard output is the pager's. */
	struct screen screen = screen_output();
	int code = check(arguments);

	if (code)
		return code;
	if (arguments_format(arguments) == FORMAT_TABLE && !arguments_has(arguments, "no-pager"))
		pager_begin();
	if (arguments->word_count == 0)
		code = show_one(arguments, NULL, true, &screen);
	for (size_t i = 0; i < arguments->word_count; i++)
		code = exit_worse(code, show_one(arguments, arguments->words[i], i == 0, &screen));
	pager_end();
	return code;
}
