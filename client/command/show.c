/* show.c - `profd show`: a capture file as tables. */
#include "../capture.h"
#include "../command.h"
#include "../output.h"
#include "../report/report.h"
#include "../text.h"

#include "proto/events.h"

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

	return text && text_parse_number(text, &number) && number <= STEP_SOURCE_COUNT
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
		int64_t base = reader_meta_int(reader, "base_realtime", 0);

		object = need(cJSON_CreateObject());
		for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
			json_add_text(object, texts[i], reader_meta_text(reader, texts[i]));
		for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
			add_number(object, reader, numbers[i], numbers[i]);
		need(cJSON_AddNumberToObject(object, "steps_recorded", (double)report_step_count(reader)));
		set_time(object, "started_at", base + reader_meta_int(reader, "record_start", 0));
		set_time(object, "finished_at", base + reader_meta_int(reader, "record_end", 0));
		need(cJSON_AddBoolToObject(object, "simulated", reader_meta_int(reader, "simulated", 0) != 0));
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
	const char *status = reply_text(about, "status");
	const char *reason = reply_text(about, "reason");
	const char *job = reply_text(about, "job");
	const char *label = reply_text(about, "label");
	const char *source = reply_text(about, "step_source");
	const char *torch = reply_text(about, "torch_version");
	const char *started = reply_text(about, "started_at");
	const char *user = reply_text(about, "user");
	const char *name = reply_text(about, "name");
	const char *host = reply_text(about, "host");
	const char *command = reply_text(about, "command");
	const char *id = reply_text(about, "capture_id");
	double rank = reply_number(about, "rank", -1), world = reply_number(about, "world_size", -1);
	bool complete = status && strcmp(status, "complete") == 0;
	char text[1024], what[96], rank_text[64] = "", when[20];

	printf("%scapture %s%s  %s%s%s%s%s\n", screen_bold(&show->screen), id ? id : "?", screen_plain(&show->screen),
	       complete ? "" : screen_warn(&show->screen), status ? status : "?", reason && *reason ? ": " : "",
	       reason ? reason : "", complete ? "" : screen_plain(&show->screen));
	if (rank >= 0 && world > 0)
		snprintf(rank_text, sizeof rank_text, ", rank %.0f of %.0f", rank, world);
	else if (rank >= 0)
		snprintf(rank_text, sizeof rank_text, ", rank %.0f", rank);
	snprintf(text, sizeof text, "%.0f %.128s%s%s%.128s%s%.64s%s%.128s", reply_number(about, "pid", 0),
		 name ? name : "", rank_text, user ? ", user " : "", user ? user : "", host ? ", host " : "",
		 host ? host : "", job && *job ? ", job " : "", job && *job ? job : "");
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
		snprintf(what, sizeof what, "%.0f of %.0f steps%s%.32s", reply_number(about, "steps_recorded", 0),
			 reply_number(about, "steps_wanted", 0), source ? ", told by " : "", source ? source : "");
	snprintf(text, sizeof text, "%s UTC, %s%s%.32s%s%.128s%s", when, what, torch && *torch ? ", torch " : "",
		 torch && *torch ? torch : "", label && *label ? ", label " : "", label && *label ? label : "",
		 cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(about, "simulated")) ? ", SIMULATED GPU" : "");
	line("recorded", text);
}

static struct table *section(struct show *show, const char *name)
{
	const struct reader *reader = &show->capture.reader;

	if (strcmp(name, "totals") == 0)
		return report_totals(reader, &show->options);
	if (strcmp(name, "steps") == 0)
		return report_steps(reader, &show->options);
	if (strcmp(name, "operators") == 0)
		return report_operators(reader, &show->options);
	if (strcmp(name, "ranges") == 0)
		return report_ranges(reader, &show->options);
	if (strcmp(name, "threads") == 0)
		return report_threads(reader, &show->options);
	if (strcmp(name, "losses") == 0)
		return report_losses(reader);
	return report_cost(reader, show->capture.summary);
}

/* Why a table has no rows: the collectors that would have filled it did not run, or there was nothing. */
static void print_empty(const struct show *show, const char *name)
{
	static const struct {
		const char *section;
		const char *collectors[3];
	} inputs[] = {{"operators", {"torch"}}, {"ranges", {"nvtx", "torch", "steps"}}};
	char *sentence, *safe;

	for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
		bool recorded = false;

		if (strcmp(inputs[i].section, name) != 0)
			continue;
		for (size_t k = 0; k < 3 && inputs[i].collectors[k]; k++)
			recorded = recorded || report_ran(&show->capture.reader, inputs[i].collectors[k]);
		if (recorded)
			break;
		sentence = report_sentence(&show->capture.reader, inputs[i].collectors[0]);
		safe = text_safe(sentence);
		printf("  not recorded%s%s\n", *safe ? ": " : "", safe);
		free(safe);
		free(sentence);
		return;
	}
	puts("  none");
}

static void print_section(struct show *show, const char *name, const char *heading)
{
	struct table *table;

	if (!wants(show, name))
		return;
	table = section(show, name);
	title(show, heading);
	if (table_rows(table))
		table_print(table, &show->screen, show->limit);
	else
		print_empty(show, name);
	table_free(table);
}

static void print_tables(struct show *show)
{
	cJSON *about = describe(&show->capture);
	struct table *collectors;

	print_header(show, about);
	if (show->options.step) {
		char text[64];

		snprintf(text, sizeof text, "only step %lld", (long long)show->options.step);
		line("shown", text);
	}
	print_section(show, "totals", "Totals");
	print_section(show, "steps", "Steps");
	print_section(show, "operators", "Operators");
	print_section(show, "ranges", "Ranges");
	print_section(show, "threads", "Threads");
	/* Losses and what was not recorded qualify whatever else is shown. */
	if (strcmp(show->by, "all") != 0)
		show->by = strcmp(show->by, "cost") == 0 ? "all-but" : "losses";
	if (strcmp(show->by, "all-but") != 0) {
		size_t limit = show->limit;

		show->limit = 0;
		print_section(show, "losses", "Losses");
		show->limit = limit;
	}
	if (strcmp(show->by, "losses") != 0) {
		struct table *cost = section(show, "cost");

		title(show, "Cost of the capture to the job");
		table_print(cost, &show->screen, 0);
		table_free(cost);
	}
	if (strcmp(show->by, "all") == 0) {
		title(show, "Collectors");
		collectors = report_collectors(&show->capture.reader);
		table_print(collectors, &show->screen, 0);
		table_free(collectors);
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

static void print_json(struct show *show)
{
	static const char *const lists[] = {"steps", "operators", "ranges", "threads", "losses"};
	cJSON *object = json_new("show");

	cJSON_AddItemToObject(object, "capture", describe(&show->capture));
	add_single(object, "totals", section(show, "totals"));
	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
		add_rows(object, lists[i], section(show, lists[i]), strcmp(lists[i], "losses") == 0 ? 0 : show->limit);
	add_rows(object, "collectors", report_collectors(&show->capture.reader), 0);
	add_single(object, "cost", section(show, "cost"));
	json_print(object);
}

int command_show(struct arguments *arguments)
{
	struct show show = {.screen = screen_output()};
	enum output_format format = arguments_format(arguments);
	int64_t step = arguments_number(arguments, "step", 0);
	int code = capture_open(arguments->words[0], &show.capture);

	if (code)
		return code;
	show.by = arguments_text(arguments, "by", format == FORMAT_CSV ? "operators" : "all");
	show.limit = (size_t)arguments_number(arguments, "limit", format == FORMAT_TABLE ? TABLE_LIMIT : 0);
	show.options.sort_by = arguments_text(arguments, "sort-by", NULL);
	show.options.shapes = arguments_has(arguments, "group-by-shapes");
	if (step) {
		show.options.step = report_step(&show.capture.reader, step);
		if (!show.options.step)
			code = fail(EXIT_NO_TARGET,
				    "the capture has no step %lld; `profd show --by steps` lists its steps",
				    (long long)step);
	}
	if (code == EXIT_DONE) {
		struct table *table;

		switch (format) {
		case FORMAT_TABLE:
			print_tables(&show);
			break;
		case FORMAT_JSON:
			print_json(&show);
			break;
		case FORMAT_CSV:
			if (strcmp(show.by, "all") == 0) {
				code = fail(EXIT_USAGE,
					    "CSV holds one table; name it with --by (operators, steps, ranges, ...)");
				break;
			}
			table = section(&show, show.by);
			table_csv(table, stdout, show.limit);
			table_free(table);
			break;
		}
	}
	capture_close(&show.capture);
	return code;
}
