/* ranks.c - `profd ranks`: which rank of a job the others wait for, and what it does longer than they. */
#include "client/compare/ranks.h"
#include "client/ui/failure.h"
#include "client/ui/json.h"
#include "client/ui/print.h"
#include "client/ui/text.h"
#include "client/verbs/arguments.h"
#include "client/verbs/commands.h"

#include "store/collectives.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_LIMIT 15

/* ---------------------------------------------------------------- which captures */

static bool names_several(const char *word)
{
	static const char *const prefixes[] = {"trigger:", "label:", "job:"};
	for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
		if (strncmp(word, prefixes[i], strlen(prefixes[i])) == 0)
			return true;
	return strchr(word, ',') && !strchr(word, '/');
}

/* One capture stands for all of its trigger. NULL after a sentence, with the exit code. */
static char *trigger_of(const char *word, int *ret_code)
{
	struct capture capture;
	char *text = NULL;
	int n = -1;
	*ret_code = capture_open(word, &capture);
	if (*ret_code)
		return NULL;
	const char *trigger = reader_meta_text(&capture.reader, "trigger_id");
	if (trigger && *trigger)
		n = asprintf(&text, "trigger:%s", trigger);
	else
		*ret_code = fail(EXIT_USAGE, "%s is of one rank; name the files of the others, too",
				 word ? word : "the newest capture");
	capture_close(&capture);
	return *ret_code ? NULL : need(n < 0 ? NULL : text);
}

/* What side_open() understands; to be freed. */
static char *words_of(const struct arguments *arguments, int *ret_code)
{
	*ret_code = EXIT_DONE;
	if (arguments->word_count == 1 && names_several(arguments->words[0]))
		return need(strdup(arguments->words[0]));
	if (arguments->word_count < 2)
		return trigger_of(arguments->word_count ? arguments->words[0] : NULL, ret_code);
	char *text = NULL;
	size_t bytes;
	FILE *to = need(open_memstream(&text, &bytes));
	for (size_t i = 0; i < arguments->word_count; i++)
		fprintf(to, "%s%s", i ? "," : "", arguments->words[i]);
	fclose(to);
	return need(text);
}

/* ---------------------------------------------------------------- the answer */

static void name_rank(const struct ranks_member *one, char to[32])
{
	if (one->rank >= 0)
		snprintf(to, 32, "rank %lld", (long long)one->rank);
	else
		snprintf(to, 32, "a rank");
}

static double waits_of(const struct ranks *ranks)
{
	double sum = 0, units = 0;
	for (size_t i = 0; i < ranks->count; i++) {
		sum += ranks->members[i].waits;
		units += ranks->members[i].units;
	}
	return units > 0 ? sum / units : 0;
}

/* In one or two sentences; to be freed. */
static char *answer_of(const struct ranks *ranks)
{
	char *text = NULL, figure[TEXT_FIGURE_BYTES], own[TEXT_FIGURE_BYTES], others[TEXT_FIGURE_BYTES], rank[32],
	     row[256] = "";
	double wall = ranks->wall, waits = waits_of(ranks);
	double percent = wall > 0 ? waits * 100 / wall : 0;
	int n;
	if (ranks->calls <= 0)
		n = asprintf(&text, "Nothing is known of how long the ranks wait for each other: %s.",
			     ranks->alone + ranks->unknown > 0
				     ? "of no collective operation it is known when it ran on all ranks"
				     : "no collective operation was recorded");
	else if (ranks->last != SIZE_MAX) {
		const struct ranks_member *last = &ranks->members[ranks->last];
		double mean = last->keeps / ranks->units;
		name_rank(last, rank);
		if (ranks->row)
			snprintf(row, sizeof row, " It has %s a step of \"%s\", the others %s on average.",
				 text_duration(own, llround(ranks->row_own)), ranks->row,
				 text_duration(others, llround(ranks->row_others)));
		n = asprintf(
			&text,
			"The others wait for %s: %s a step, %.0f %% (%.0f to %.0f %% in each). It comes last to %.0f of %.0f collective operations.%s",
			rank, text_duration(figure, llround(mean)), mean * 100 / fmax(wall, 1), ranks->least * 100,
			ranks->most * 100, last->last, last->calls, row);
	} else if (ranks->in_turn) {
		n = asprintf(
			&text,
			"The ranks wait for each other in turn: %s a step, %.0f %%; in most steps for no single one.",
			text_duration(figure, llround(waits)), percent);
	} else {
		n = asprintf(&text, "The ranks come together: each waits %s a step for the others, %.1f %%.",
			     text_duration(figure, llround(waits)), percent);
	}
	return need(n < 0 ? NULL : text);
}

/* ---------------------------------------------------------------- tables */

enum { R_RANK, R_PID, R_HOST, R_CAPTURE, R_STEPS, R_STEP, R_WAITS, R_PERCENT, R_KEEPS, R_LAST, R_CALLS };

static const struct column rank_columns[] = {
	[R_RANK] = {"rank", "RANK", COLUMN_NUMBER, 0},
	[R_PID] = {"pid", "PID", COLUMN_NUMBER, COLUMN_OPTIONAL},
	[R_HOST] = {"host", "HOST", COLUMN_TEXT, COLUMN_OPTIONAL | COLUMN_SPARE},
	[R_CAPTURE] = {"capture_id", "CAPTURE", COLUMN_TEXT, COLUMN_ELASTIC},
	[R_STEPS] = {"steps", "STEPS", COLUMN_COUNT, COLUMN_SPARE},
	[R_STEP] = {"step_ns", "STEP", COLUMN_DURATION, 0},
	[R_WAITS] = {"waits_ns", "WAITS", COLUMN_DURATION, 0},
	[R_PERCENT] = {"waits_percent", "OF A STEP", COLUMN_PERCENT, COLUMN_BARRED},
	[R_KEEPS] = {"waited_for_ns", "WAITED FOR", COLUMN_DURATION, 0},
	[R_LAST] = {"last", "LAST", COLUMN_COUNT, 0},
	[R_CALLS] = {"operations", "OF", COLUMN_COUNT, 0},
};

static struct table *rank_table(const struct ranks *ranks)
{
	struct table *table = table_new(COUNTED(rank_columns));
	for (size_t i = 0; i < ranks->count; i++) {
		const struct ranks_member *one = &ranks->members[i];
		struct reader *reader = &one->capture->capture.reader;
		int64_t pid = reader_meta_int(reader, "pid", 0);
		const char *id = reader_meta_text(reader, "capture_id"), *label = reader_meta_text(reader, "label");
		table_add(table);
		if (one->rank >= 0)
			table_set(table, R_RANK, one->rank);
		if (pid > 0)
			table_set(table, R_PID, pid);
		table_set_text(table, R_HOST, reader_meta_text(reader, "host"));
		table_set_text(table, R_CAPTURE, id && strcmp(id, "import") != 0 ? id : label);
		table_set(table, R_STEPS, llround(one->units));
		if (one->units > 0)
			table_set(table, R_STEP, llround(one->wall / one->units));
		if (one->calls > 0 && one->units > 0) {
			table_set(table, R_WAITS, llround(one->waits / one->units));
			table_set_real(table, R_PERCENT, one->wall > 0 ? one->waits * 100 / one->wall : 0);
			table_set(table, R_KEEPS, llround(one->keeps / ranks->units));
			table_set(table, R_LAST, llround(one->last));
			table_set(table, R_CALLS, llround(one->calls));
		}
		if (i == ranks->last)
			table_mark(table);
	}
	if (ranks->calls > 0)
		table_note(
			table,
			"  WAITS: for other ranks, while nothing else was done; WAITED FOR: that the others did so for it, on average of them");
	return table;
}

enum { O_OPERATION, O_GROUP, O_SIZE, O_TYPE, O_BYTES, O_CALLS, O_TRANSFER, O_WAIT, O_MOST, O_RATE, O_BUS };

static const struct column operation_columns[] = {
	[O_OPERATION] = {"operation", "OPERATION", COLUMN_TEXT, 0},
	[O_GROUP] = {"group", "GROUP", COLUMN_TEXT, COLUMN_OPTIONAL},
	[O_SIZE] = {"group_size", "RANKS", COLUMN_NUMBER, COLUMN_OPTIONAL},
	[O_TYPE] = {"dtype", "TYPE", COLUMN_TEXT, COLUMN_OPTIONAL},
	[O_BYTES] = {"bytes", "SIZE", COLUMN_BYTES, COLUMN_OPTIONAL},
	[O_CALLS] = {"calls", "CALLS", COLUMN_COUNT, 0},
	[O_TRANSFER] = {"transfer_ns", "ITSELF", COLUMN_DURATION, 0},
	[O_WAIT] = {"wait_ns", "WAIT", COLUMN_DURATION, 0},
	[O_MOST] = {"max_wait_ns", "MAX WAIT", COLUMN_DURATION, COLUMN_SPARE},
	[O_RATE] = {"bandwidth_gb_s", "BANDWIDTH", COLUMN_RATE, COLUMN_OPTIONAL},
	[O_BUS] = {"bus_gb_s", "OF THE BUS", COLUMN_RATE, COLUMN_OPTIONAL},
};

static struct table *operation_table(const struct ranks *ranks)
{
	struct table *table = table_new(COUNTED(operation_columns));
	for (size_t i = 0; i < ranks->operation_count; i++) {
		const struct ranks_operation *one = &ranks->operations[i];
		double factor =
			one->operation ? collective_bus_factor(collective_of_record(one->operation), one->size) : 0;
		table_add(table);
		table_set_text(table, O_OPERATION, one->operation);
		table_set_text(table, O_GROUP, one->group);
		table_set_text(table, O_TYPE, one->dtype);
		if (one->size > 0)
			table_set(table, O_SIZE, one->size);
		if (one->bytes >= 0)
			table_set(table, O_BYTES, one->bytes);
		table_set(table, O_CALLS, llround(one->calls));
		table_set(table, O_TRANSFER, llround(one->transfer / one->calls));
		table_set(table, O_WAIT, llround(one->wait / one->calls));
		table_set(table, O_MOST, llround(one->most));
		if (one->bytes > 0 && one->transfer > 0) {
			double rate = (double)one->bytes / (one->transfer / one->calls);
			table_set_real(table, O_RATE, rate);
			if (factor > 0)
				table_set_real(table, O_BUS, rate * factor);
		}
	}
	if (ranks->operation_count)
		table_note(
			table,
			"  ITSELF: in flight on the rank that came last, mean of the calls; WAIT: how much longer on the ranks, on average");
	if (ranks->alone > 0)
		table_note(table, "  %.0f calls have none on the other ranks that is known to be the same",
			   ranks->alone);
	if (ranks->unknown > 0)
		table_note(table, "  of %.0f calls it is not known on all ranks when they ran", ranks->unknown);
	return table;
}

/* ---------------------------------------------------------------- the three formats */

static void heading(const struct screen *screen, const char *text)
{
	printf("\n%s%s%s\n", screen_bold(screen), text, screen_plain(screen));
}

static void print_text(const struct ranks *ranks, size_t limit)
{
	struct screen screen = screen_output();
	struct reader *reader = &ranks->members[0].capture->capture.reader;
	const char *name = reader_meta_text(reader, "name"), *job = reader_meta_text(reader, "job");
	char *answer = answer_of(ranks), figure[TEXT_FIGURE_BYTES], *line = NULL, *safe;
	struct table *table = rank_table(ranks);
	int n = asprintf(&line, "%zu ranks of %s%s%s, %.0f steps, %s a step", ranks->count,
			 name && *name ? name : "a job", job && *job ? ", job " : "", job ? job : "", ranks->units,
			 text_duration(figure, llround(ranks->wall)));
	safe = text_safe(need(n < 0 ? NULL : line));
	print_wrapped(stdout, safe, 0, screen.width > 40 ? screen.width : SIZE_MAX, 0);
	fputs("\n\n", stdout);
	print_wrapped(stdout, answer, 0, screen.width > 40 ? screen.width : SIZE_MAX, 0);
	putchar('\n');
	heading(&screen, "Ranks");
	table_print(table, &screen, 0);
	table_free(table);
	table = operation_table(ranks);
	if (table_rows(table) || ranks->alone + ranks->unknown > 0) {
		heading(&screen, "Collective operations");
		table_print(table, &screen, limit);
	}
	table_free(table);
	free(answer);
	free(line);
	free(safe);
}

static cJSON *last_json(const struct ranks *ranks)
{
	if (ranks->last == SIZE_MAX)
		return need(cJSON_CreateNull());
	const struct ranks_member *last = &ranks->members[ranks->last];
	cJSON *object = need(cJSON_CreateObject());
	if (last->rank >= 0)
		need(cJSON_AddNumberToObject(object, "rank", (double)last->rank));
	else
		need(cJSON_AddNullToObject(object, "rank"));
	json_add_text(object, "capture_id", reader_meta_text(&last->capture->capture.reader, "capture_id"));
	need(cJSON_AddNumberToObject(object, "waited_for_ns", (double)llround(last->keeps / ranks->units)));
	need(cJSON_AddNumberToObject(object, "min", ranks->least));
	need(cJSON_AddNumberToObject(object, "max", ranks->most));
	json_add_text(object, "row", ranks->row);
	if (ranks->row) {
		need(cJSON_AddNumberToObject(object, "row_ns", (double)llround(ranks->row_own)));
		need(cJSON_AddNumberToObject(object, "others_row_ns", (double)llround(ranks->row_others)));
	} else {
		need(cJSON_AddNullToObject(object, "row_ns"));
		need(cJSON_AddNullToObject(object, "others_row_ns"));
	}
	return object;
}

static void print_json(const struct ranks *ranks, size_t limit)
{
	cJSON *object = json_new("ranks");
	struct table *table = rank_table(ranks);
	char *answer = answer_of(ranks);
	need(cJSON_AddNumberToObject(object, "steps", ranks->units));
	need(cJSON_AddNumberToObject(object, "step_ns", (double)llround(ranks->wall)));
	json_add_text(object, "answer", answer);
	cJSON_AddItemToObject(object, "last", last_json(ranks));
	cJSON_AddItemToObject(object, "ranks", table_json(table, 0));
	table_free(table);
	table = operation_table(ranks);
	cJSON_AddItemToObject(object, "operations", table_json(table, limit));
	table_free(table);
	need(cJSON_AddNumberToObject(object, "alone", ranks->alone));
	need(cJSON_AddNumberToObject(object, "unknown", ranks->unknown));
	free(answer);
	json_print(object);
}

static int run(struct side *side, const struct arguments *arguments)
{
	enum output_format format = arguments_format(arguments);
	size_t limit = (size_t)arguments_number(arguments, "limit", format == FORMAT_TABLE ? TABLE_LIMIT : 0);
	struct ranks ranks;
	int code = ranks_compare(side, &ranks);
	if (code == EXIT_DONE && format == FORMAT_JSON) {
		print_json(&ranks, limit);
	} else if (code == EXIT_DONE && format == FORMAT_CSV) {
		struct table *table = rank_table(&ranks);
		table_csv(table, stdout, 0);
		table_free(table);
	} else if (code == EXIT_DONE) {
		print_text(&ranks, limit);
	}
	ranks_free(&ranks);
	return code;
}

int command_ranks(struct arguments *arguments)
{
	struct side side = {0};
	int code;
	char *words = words_of(arguments, &code);
	if (!words)
		return code;
	code = side_open(words, &side);
	if (code == EXIT_DONE)
		code = run(&side, arguments);
	side_close(&side);
	free(words);
	return code;
}
