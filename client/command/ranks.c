/* ranks.c - `profd ranks`: which rank of a job the others wait for, and what it does longer than they. */
#include "client/compare/ranks.h"
#include "client/ui/failure.h"
#include "client/ui/json.h"
#include "client/ui/print.h"
#include "client/ui/text.h"
#include "client/verbs/arguments.h"
#include "client/verbs/commands.h"
#include "ranks_answer.h"

#include "store/collectives.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TABLE_LIMIT 15

/* ---------------------------------------------------------------- which captures */

static bool names_several(const char *word)
{
	static const char *const prefixes[] = {"trigger:", "label:", "job:"};
	for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
		if (strncmp(word, prefixes[i], strlen(prefixes[i])) == 0)
			return true;
	return strchr(word, ',') && access(word, F_OK) != 0;
}

/* A capture that a daemon has stands for all of its trigger, with the steps that are named behind it (17@2-4). A file stands for itself.
 * NULL after a sentence, with the exit code. */
static char *trigger_of(const char *word, int *ret_code)
{
	struct capture capture;
	char *text = NULL, *id = word ? need(strdup(word)) : NULL;
	const char *steps = word && access(word, F_OK) != 0 ? strrchr(word, '@') : NULL;
	int n = -1;
	if (steps)
		id[steps - word] = '\0';
	*ret_code = capture_open(id, &capture);
	free(id);
	if (*ret_code)
		return NULL;
	const char *trigger = capture.row ? json_text(capture.row, "trigger_id") : NULL;
	if (trigger && *trigger)
		n = asprintf(&text, "trigger:%s%s", trigger, steps ? steps : "");
	else
		*ret_code = fail(EXIT_USAGE, "%s is of one rank; name the files of the other ranks, too",
				 word ? word : "the newest capture");
	capture_close(&capture);
	return *ret_code ? NULL : need(n < 0 ? NULL : text);
}

/* ---------------------------------------------------------------- tables */

enum { R_RANK, R_PID, R_HOST, R_ID, R_LABEL, R_CAPTURE, R_STEPS, R_STEP, R_WAITS, R_PERCENT, R_KEEPS, R_LAST, R_CALLS };

static const struct column rank_columns[] = {
	[R_RANK] = {"rank", "RANK", COLUMN_NUMBER, 0},
	[R_PID] = {"pid", "PID", COLUMN_NUMBER, COLUMN_OPTIONAL},
	[R_HOST] = {"host", "HOST", COLUMN_TEXT, COLUMN_OPTIONAL | COLUMN_SPARE},
	[R_ID] = {"capture_id", "", COLUMN_TEXT, COLUMN_DATA_ONLY},
	[R_LABEL] = {"label", "", COLUMN_TEXT, COLUMN_DATA_ONLY},
	[R_CAPTURE] = {"", "CAPTURE", COLUMN_TEXT, COLUMN_ELASTIC | COLUMN_TABLE_ONLY},
	[R_STEPS] = {"steps", "STEPS", COLUMN_COUNT, COLUMN_SPARE},
	[R_STEP] = {"step_ns", "STEP", COLUMN_DURATION, 0},
	[R_WAITS] = {"waits_ns", "WAITS", COLUMN_DURATION, 0},
	[R_PERCENT] = {"waits_percent", "OF A STEP", COLUMN_PERCENT, COLUMN_BARRED},
	[R_KEEPS] = {"waited_for_ns", "WAITED FOR", COLUMN_DURATION, 0},
	[R_LAST] = {"last", "LAST", COLUMN_COUNT, 0},
	[R_CALLS] = {"operations", "OF", COLUMN_COUNT, 0},
};

/* A trace that was imported has none. */
static const char *id_of(struct side_capture *capture)
{
	const char *id = reader_meta_text(&capture->capture.reader, "capture_id");
	return id && strcmp(id, "import") == 0 ? NULL : id;
}

/* "17,18": the ids of a member's captures, or their labels. NULL: there are none. To be freed. */
static char *names_of(const struct ranks *ranks, size_t member, bool ids)
{
	char *text = NULL;
	size_t bytes, n = 0;
	FILE *to = need(open_memstream(&text, &bytes));
	for (size_t c = 0; c < ranks->side->count; c++) {
		struct side_capture *capture = &ranks->side->captures[c];
		const char *name = ids ? id_of(capture) : reader_meta_text(&capture->capture.reader, "label");
		if (ranks->member_of[c] == member && name && *name && (ids || !id_of(capture)))
			fprintf(to, "%s%s", n++ ? "," : "", name);
	}
	need(fclose(to) ? NULL : text);
	if (n)
		return text;
	free(text);
	return NULL;
}

static void tell_limits(struct table *table, const struct ranks *ranks)
{
	if (ranks->calls > 0)
		table_note(
			table,
			"  WAITS: for other ranks, while nothing else was done; WAITED FOR: the others for this one, on average of them");
	if (ranks->world_size > (int64_t)ranks->count)
		table_note(table, "  %lld of the job's %lld ranks %s not here%s",
			   (long long)(ranks->world_size - (int64_t)ranks->count), (long long)ranks->world_size,
			   ranks->world_size - (int64_t)ranks->count > 1 ? "are" : "is",
			   ranks->calls > 0 ? "; if all of these wait, it may be for one that is not" : "");
	if (ranks->left_out)
		table_note(table, "  %zu %s%s that not all of these ranks have recorded %s left out", ranks->left_out,
			   ranks_unit(ranks), ranks->left_out > 1 ? "s" : "", ranks->left_out > 1 ? "are" : "is");
}

static struct table *rank_table(const struct ranks *ranks)
{
	struct table *table = table_new(COUNTED(rank_columns));
	for (size_t i = 0; i < ranks->count; i++) {
		const struct ranks_member *one = &ranks->members[i];
		struct reader *reader = &one->capture->capture.reader;
		int64_t pid = reader_meta_int(reader, "pid", 0);
		char *ids = names_of(ranks, i, true), *labels = names_of(ranks, i, false);
		table_add(table);
		if (one->rank >= 0)
			table_set(table, R_RANK, one->rank);
		if (pid > 0)
			table_set(table, R_PID, pid);
		table_set_text(table, R_HOST, reader_meta_text(reader, "host"));
		table_set_text(table, R_ID, ids);
		table_set_text(table, R_LABEL, labels);
		table_set_text(table, R_CAPTURE, ids ? ids : labels);
		free(ids);
		free(labels);
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
	tell_limits(table, ranks);
	return table;
}

enum { O_OPERATION, O_GROUP, O_SIZE, O_TYPE, O_BYTES, O_CALLS, O_TRANSFER, O_WAIT, O_MOST, O_RATE, O_BUS };

static const struct column operation_columns[] = {
	[O_OPERATION] = {"operation", "OPERATION", COLUMN_TEXT, 0},
	[O_GROUP] = {"group", "GROUP", COLUMN_TEXT, COLUMN_OPTIONAL | COLUMN_ELASTIC},
	[O_SIZE] = {"group_size", "RANKS", COLUMN_NUMBER, COLUMN_OPTIONAL},
	[O_TYPE] = {"dtype", "TYPE", COLUMN_TEXT, COLUMN_OPTIONAL | COLUMN_SPARE},
	[O_BYTES] = {"bytes", "SIZE", COLUMN_BYTES, COLUMN_OPTIONAL},
	[O_CALLS] = {"calls", "CALLS", COLUMN_COUNT, 0},
	[O_TRANSFER] = {"transfer_ns", "TRANSFER", COLUMN_DURATION, 0},
	[O_WAIT] = {"wait_ns", "WAIT", COLUMN_DURATION, 0},
	[O_MOST] = {"max_wait_ns", "MAX WAIT", COLUMN_DURATION, COLUMN_SPARE},
	[O_RATE] = {"bandwidth_gb_s", "BANDWIDTH", COLUMN_RATE, COLUMN_OPTIONAL | COLUMN_SPARE},
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
			"  TRANSFER: in flight on the rank that came last; WAIT: how much longer on all ranks, on average; means of the calls");
	if (ranks->alone > 0)
		table_note(table,
			   "  %.0f calls are left out: it is not known which call of the other ranks is the same",
			   ranks->alone);
	if (ranks->unknown > 0)
		table_note(table, "  %.0f calls are left out: it is not known on all ranks when they ran",
			   ranks->unknown);
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
	char *answer = ranks_answer(ranks), figure[TEXT_FIGURE_BYTES], *line = NULL, *safe;
	struct table *table = rank_table(ranks);
	int n = asprintf(&line, "%zu ranks of %s%s%s, %.0f %s%s of %s", ranks->count, name && *name ? name : "a job",
			 job && *job ? ", job " : "", job ? job : "", ranks->units, ranks_unit(ranks),
			 ranks->units > 1 ? "s" : "", text_duration(figure, llround(ranks->wall)));
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
	char *ids = names_of(ranks, ranks->last, true);
	cJSON *object = need(cJSON_CreateObject());
	if (last->rank >= 0)
		need(cJSON_AddNumberToObject(object, "rank", (double)last->rank));
	else
		need(cJSON_AddNullToObject(object, "rank"));
	json_add_text(object, "capture_id", ids);
	free(ids);
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
	char *answer = ranks_answer(ranks);
	need(cJSON_AddNumberToObject(object, "steps", ranks->units));
	need(cJSON_AddNumberToObject(object, "step_ns", (double)llround(ranks->wall)));
	json_add_text(object, "answer", answer);
	cJSON_AddItemToObject(object, "last", last_json(ranks));
	cJSON_AddItemToObject(object, "ranks", table_json(table, 0));
	table_free(table);
	table = operation_table(ranks);
	cJSON_AddItemToObject(object, "operations", table_json(table, limit));
	table_free(table);
	if (ranks->world_size > 0)
		need(cJSON_AddNumberToObject(object, "world_size", (double)ranks->world_size));
	else
		need(cJSON_AddNullToObject(object, "world_size"));
	need(cJSON_AddNumberToObject(object, "left_out", (double)ranks->left_out));
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

static int open_side(const struct arguments *arguments, char **ret_words, struct side *side)
{
	int code = EXIT_DONE;
	*ret_words = NULL;
	if (arguments->word_count > 1)
		return side_open_all((const char *const *)arguments->words, arguments->word_count, side);
	const char *word = arguments->word_count ? arguments->words[0] : NULL;
	*ret_words = word && names_several(word) ? need(strdup(word)) : trigger_of(word, &code);
	return *ret_words ? side_open(*ret_words, side) : code;
}

int command_ranks(struct arguments *arguments)
{
	struct side side = {0};
	char *words;
	int code = open_side(arguments, &words, &side);
	if (code == EXIT_DONE)
		code = run(&side, arguments);
	side_close(&side);
	free(words);
	return code;
}
