/* show.c - `profd show`: a capture file as tables. */
#include "client/reader/capture.h"
#include "client/report/report.h"
#include "client/ui/failure.h"
#include "client/ui/figure.h"
#include "client/ui/json.h"
#include "client/ui/print.h"
#include "client/ui/text.h"
#include "client/verbs/arguments.h"
#include "client/verbs/commands.h"

#include "proto/events.h"
#include "proto/quantity.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TABLE_LIMIT 15

struct show {
	struct capture capture;
	struct report_options options;
	struct screen screen;
	const char *by;
	size_t limit;
	bool simulated; /* what the devices did was no device's doing */
};

static bool wants(const struct show *show, const char *section)
{
	return strcmp(show->by, "all") == 0 || strcmp(show->by, section) == 0;
}

static void set_time(cJSON *object, const char *key, int64_t realtime_ns)
{
	time_t seconds = (time_t)(realtime_ns / 1000000000);
	struct tm parts;
	char text[40];
	size_t n;

	if (realtime_ns <= 0 || !gmtime_r(&seconds, &parts)) {
		json_add_text(object, key, NULL);
		return;
	}
	n = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
	snprintf(text + n, sizeof text - n, ".%06dZ", (int)(realtime_ns / 1000 % 1000000));
	json_add_text(object, key, text);
}

static void add_number(cJSON *object, const struct reader *reader, const char *key, const char *meta)
{
	int64_t value = reader_meta_int(reader, meta, INT64_MIN);

	if (value == INT64_MIN)
		need(cJSON_AddNullToObject(object, key));
	else
		need(cJSON_AddNumberToObject(object, key, (double)value));
}

/* A file holds the word, or the number of enums.def. */
static const char *step_source(struct reader *reader)
{
	const char *text = reader_meta_text(reader, "step_source");
	int64_t number;

	return text && quantity_number(text, &number) && number <= STEP_SOURCE_COUNT
		       ? step_source_word((unsigned)number)
		       : text;
}

/* CAPTURE: as the catalogue has it, else (a file that was copied away) as the file itself says. */
static cJSON *describe(struct capture *capture)
{
	static const char *const texts[] = {"capture_id", "trigger_id", "name",	  "command", "host",
					    "job",	  "label",	"status", "reason"};
	static const char *const numbers[] = {"cycle",	    "pid",	    "uid",    "rank",
					      "world_size", "steps_wanted", "events", "lost"};
	struct reader *reader = &capture->reader;
	cJSON *object;

	if (capture->row) {
		object = need(cJSON_Duplicate(capture->row, true));
	} else {
		int64_t base = figure_time(reader_meta_int(reader, "base_realtime", 0));

		object = need(cJSON_CreateObject());
		for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
			json_add_text(object, texts[i], reader_meta_text(reader, texts[i]));
		for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
			add_number(object, reader, numbers[i], numbers[i]);
		need(cJSON_AddNumberToObject(object, "steps_recorded", (double)report_step_count(reader)));
		set_time(object, "started_at", base + figure_time(reader_meta_int(reader, "record_start", 0)));
		set_time(object, "finished_at", base + figure_time(reader_meta_int(reader, "record_end", 0)));
		need(cJSON_AddBoolToObject(object, "simulated", report_simulated(reader)));
		add_number(object, reader, "step_ns", "step_during");
	}
	if (!cJSON_HasObjectItem(object, "step_source"))
		json_add_text(object, "step_source", step_source(reader));
	if (!cJSON_HasObjectItem(object, "torch_version"))
		json_add_text(object, "torch_version", reader_meta_text(reader, "torch_version"));
	add_number(object, reader, "derive_ns", "derive");
	return object;
}

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
		 user ? ", user " : "", user ? user : "", host ? ", host " : "", host ? host : "",
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

static struct table *losses(const struct reader *reader, const struct report_options *options)
{
	(void)options;
	return report_losses(reader);
}

/* A table of the capture and the collectors any of which fills it; none: it is always there. */
struct section {
	const char *name; /* --by takes it */
	const char *key;  /* of JSON, where it is another; else NULL */
	const char *heading;
	struct table *(*table)(const struct reader *reader, const struct report_options *options);
	const char *collectors[3];
	bool device;	    /* what the devices did, or was done to them */
	bool rare;	    /* not worth a line among the others where it is empty */
	int64_t activities; /* that CUPTI may refuse to record, a bit each (enum activity): then there is nothing */
};

static const struct section sections[] = {
	{"totals", NULL, "Totals", report_totals, {NULL}, false, false, 0},
	{"steps", NULL, "Steps", report_steps, {NULL}, false, false, 0},
	{"devices", NULL, "Devices", report_devices, {"cupti"}, true, false, 0},
	{"kernels", NULL, "Kernels", report_kernels, {"cupti"}, true, false, 0},
	{"copies", NULL, "Copies", report_copies, {"cupti"}, true, false, REPORT_COPIES},
	{"memsets", "sets", "Memsets", report_sets, {"cupti"}, true, true, REPORT_SETS},
	{"graphs", NULL, "CUDA graphs", report_graphs, {"cupti"}, true, true, 0},
	{"streams", NULL, "Streams", report_streams, {"cupti"}, true, true, 0},
	{"operators", NULL, "Operators", report_operators, {"torch"}, false, false, 0},
	{"ranges", NULL, "Ranges", report_ranges, {"nvtx", "torch", "steps"}, false, false, 0},
	{"api",
	 NULL,
	 "CUDA API calls",
	 report_api,
	 {"cupti"},
	 true,
	 false,
	 1ll << ACTIVITY_RUNTIME | 1ll << ACTIVITY_DRIVER},
	{"syncs", NULL, "Waits for a device", report_syncs, {"cupti"}, true, true, 1ll << ACTIVITY_SYNC},
	{"memory", NULL, "Memory of the devices", report_memory, {"memory"}, true, true, 1ll << ACTIVITY_MEMORY},
	{"sessions", NULL, "CUPTI", report_sessions, {"cupti"}, true, true, 0},
	{"threads", NULL, "Threads", report_threads, {NULL}, false, false, 0},
	{"dropped", "losses", "Dropped or incomplete events", losses, {NULL}, false, false, 0},
};

static const struct section *section_find(const char *name)
{
	for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
		if (strcmp(sections[i].name, name) == 0)
			return &sections[i];
	return NULL;
}

static bool recorded(const struct show *show, const struct section *section)
{
	const struct reader *reader = &show->capture.reader;
	bool any = !section->collectors[0];

	for (size_t i = 0; i < 3 && section->collectors[i] && !any; i++)
		any = section->device ? report_device_ran(reader, section->collectors[i])
				      : report_ran(reader, section->collectors[i]);
	return any && !report_refused(reader, section->activities);
}

/* "not recorded", and why: what the first of its collectors said. To be freed. */
static char *absence(const struct show *show, const struct section *section)
{
	char *sentence = report_sentence(&show->capture.reader, section->collectors[0]);
	char *safe = text_safe(sentence);
	char *text = NULL;
	int n;

	if (section->device && reader_meta_int(&show->capture.reader, "schema", 0) < 2)
		n = asprintf(&text, "not recorded: the release of profd that wrote the capture knew no CUDA activity");
	else if (report_refused(&show->capture.reader, section->activities))
		n = asprintf(&text, "not recorded: CUPTI refuses it in this process");
	else
		n = asprintf(&text, "not recorded%s%s", *safe ? ": " : "", safe);
	free(safe);
	free(sentence);
	return need(n < 0 ? NULL : text);
}

/* What the figures of a table leave out, or sum up to. */
static void print_notes(const struct show *show, const struct section *section)
{
	const struct reader *reader = &show->capture.reader;
	int64_t session = report_session_options(reader);
	char figure[TEXT_FIGURE_BYTES];
	int64_t device = report_device_total(reader, &show->options);

	if (section->table == report_kernels && session & SESSION_GRAPHS_WHOLE)
		puts("  CUDA graphs were recorded as a whole: their kernels are not here (--by graphs)");
	if (section->table == report_api && !(session & SESSION_API_ALL))
		puts("  launches, copies and waits only; `profd trigger --api all` records all calls");
	if (section->table == report_memory)
		puts("  PEAK and KEPT count from what was held when it began");
	if (section->table == report_operators)
		printf("Self CPU time total: %s\n",
		       text_duration(figure, report_self_cpu_total(reader, &show->options)));
	/* Among the other tables it stands below the operators, once. */
	if (device >= 0 &&
	    (section->table == report_operators || (section->table == report_kernels && strcmp(show->by, "all") != 0)))
		printf("Self CUDA time total: %s\n", text_duration(figure, device));
}

static void print_section(struct show *show, const struct section *section, size_t limit)
{
	bool whole = strcmp(show->by, "all") == 0;
	struct table *table;
	char heading[96];

	if (!wants(show, section->name))
		return;
	/* That there is nothing of the device is said once. */
	if (whole && section->device && !recorded(show, section) && section->table != report_kernels &&
	    !report_refused(&show->capture.reader, section->activities))
		return;
	table = section->table(&show->capture.reader, &show->options);
	if (!(whole && section->rare && !table_rows(table)) ||
	    report_refused(&show->capture.reader, section->activities)) {
		snprintf(heading, sizeof heading, "%s%s", section->heading,
			 section->device && show->simulated ? " (simulated GPU)" : "");
		title(show, heading);
		if (table_rows(table)) {
			table_print(table, &show->screen, limit);
			print_notes(show, section);
		} else if (recorded(show, section)) {
			puts("  none");
		} else {
			char *text = absence(show, section);

			printf("  %s\n", text);
			free(text);
		}
	}
	table_free(table);
}

/* What the figures do not say by themselves. */
static cJSON *capture_notes(struct reader *reader)
{
	const char *text = reader_meta_text(reader, "notes");
	cJSON *notes = need(cJSON_CreateArray());

	for (const char *at = text ? text : ""; *at; at += strcspn(at, "\n"), at += *at == '\n') {
		char *line = need(strndup(at, strcspn(at, "\n")));

		cJSON_AddItemToArray(notes, need(cJSON_CreateString(line)));
		free(line);
	}
	return notes;
}

static void print_capture_notes(struct reader *reader)
{
	cJSON *notes = capture_notes(reader);
	const cJSON *note;

	cJSON_ArrayForEach(note, notes)
	{
		line("note", note->valuestring);
	}
	cJSON_Delete(notes);
}

static void print_tables(struct show *show)
{
	cJSON *about = describe(&show->capture);
	bool whole = strcmp(show->by, "all") == 0, cost_only = strcmp(show->by, "cost") == 0;
	struct table *table;

	print_header(show, about);
	print_capture_notes(&show->capture.reader);
	if (show->options.step) {
		char text[64];

		snprintf(text, sizeof text, "only step %lld", (long long)show->options.step);
		line("shown", text);
	}
	for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
		if (sections[i].table != losses)
			print_section(show, &sections[i], show->limit);
	/* What was dropped and what was not recorded qualify whatever else is shown. */
	if (!cost_only) {
		show->by = whole ? show->by : "dropped";
		print_section(show, section_find("dropped"), 0);
	}
	if (whole || cost_only) {
		table = report_cost(&show->capture.reader, show->capture.summary);
		title(show, "Cost of the capture to the job");
		table_print(table, &show->screen, 0);
		puts(REPORT_COST_NOTE);
		table_free(table);
	}
	if (whole) {
		table = report_collectors(&show->capture.reader);
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

/* A table of the device side that was not recorded is null; the older ones are empty then. */
static void print_json(struct show *show)
{
	const struct reader *reader = &show->capture.reader;
	cJSON *object = json_new("show");

	cJSON_AddItemToObject(object, "capture", describe(&show->capture));
	cJSON_AddItemToObject(object, "notes", capture_notes(&show->capture.reader));
	add_single(object, "totals", report_totals(reader, &show->options));
	for (size_t i = 1; i < sizeof sections / sizeof *sections; i++) {
		const struct section *section = &sections[i];
		const char *key = section->key ? section->key : section->name;

		if (section->device && !recorded(show, section))
			need(cJSON_AddNullToObject(object, key));
		else
			add_rows(object, key, section->table(reader, &show->options),
				 section->table == losses ? 0 : show->limit);
	}
	add_rows(object, "collectors", report_collectors(reader), 0);
	add_single(object, "cost", report_cost(reader, show->capture.summary));
	json_print(object);
}

static int print_csv(struct show *show)
{
	const struct section *section = section_find(show->by);
	struct table *table;

	if (strcmp(show->by, "all") == 0)
		return fail(EXIT_USAGE, "CSV holds one table; name it with --by (operators, kernels, steps, ...)");
	table = section ? section->table(&show->capture.reader, &show->options)
			: report_cost(&show->capture.reader, show->capture.summary);
	table_csv(table, stdout, show->limit);
	table_free(table);
	if (section && !recorded(show, section)) {
		char *text = absence(show, section);

		note("%s: %s", section->name, text);
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
	show.by = arguments_text(arguments, "by", format == FORMAT_CSV ? "operators" : "all");
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
