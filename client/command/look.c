/* look.c - see look.h. */
#include "look.h"
#include "proto/base/array.h"

#include "client/link/forked.h"
#include "client/reader/capture.h"
#include "client/report/recurring.h"
#include "client/ui/json.h"
#include "client/ui/listing.h"
#include "client/ui/text.h"

#include <stdlib.h>
#include <string.h>

/* Of each kind, at most. */
#define ROWS 8
/* Longer names are cut in the option, where a star stands for the rest. */
#define NAME_MAX_BYTES 64

static const struct {
	const char *word, *option;
} kinds[RECURRING_COUNT] = {{"optimizer", "--step-optimizer"},
			    {"range", "--step-range"},
			    {"batches", "--step-range"},
			    {"operator", "--step-op"}};

static const struct column columns[] = {
	{"pid", "PID", COLUMN_NUMBER, 0},
	{"kind", "KIND", COLUMN_TEXT, 0},
	{"name", "NAME", COLUMN_TEXT, COLUMN_SPARE}, /* the option has it, whole */
	{"calls", "CALLS", COLUMN_COUNT, 0},
	{"period_ns", "EVERY", COLUMN_DURATION, 0},
	{"variation_percent", "VARIES", COLUMN_PERCENT, 0},
	{"option", "OPTION", COLUMN_TEXT, 0},
};
static const struct listing listing = {"look", "recurring", COUNTED(columns)};

static int64_t unusual(const struct recurrings *candidates, const struct recurring *one)
{
	int64_t away = llabs(one->calls - candidates->usual);

	return one->kind == RECURRING_OPERATOR && away > 1 ? away : 0;
}

static const struct recurrings *sorted;

static int by_use(const void *a, const void *b)
{
	const struct recurring *one = a, *other = b;
	int64_t left = unusual(sorted, one), right = unusual(sorted, other);

	return ORDER(one->kind, other->kind) ?: ORDER(left, right) ?: ORDER(one->first, other->first);
}

static char *quoted(char *to, char *end, const char *text)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:/=-";

	if (text[strspn(text, plain)] == 0)
		return to + snprintf(to, (size_t)(end - to), "%s", text);
	*to++ = '\'';
	for (; *text && end - to > 6; text++)
		to += snprintf(to, (size_t)(end - to), *text == '\'' ? "'\\''" : "%c", *text);
	*to++ = '\'';
	*to = 0;
	return to;
}

/* The option that takes it for the step. */
static void option(const struct recurring *one, char *text, size_t bytes)
{
	char pattern[NAME_MAX_BYTES + 2];
	const char *name = one->name;
	size_t n;

	if (one->kind == RECURRING_OPTIMIZER) {
		const char *class = name + strlen("Optimizer.step#"), *end = strstr(class, ".step");

		snprintf(pattern, sizeof pattern, "%.*s", (int)(end ? end - class : (long)strlen(class)), class);
	} else if (one->kind == RECURRING_BATCH) {
		snprintf(pattern, sizeof pattern, "enumerate(DataLoader)*");
	} else if (strlen(name) < NAME_MAX_BYTES) {
		snprintf(pattern, sizeof pattern, "%s", name);
	} else {
		for (n = NAME_MAX_BYTES; n > 0 && ((unsigned char)name[n] & 0xc0) == 0x80; n--)
			;
		snprintf(pattern, sizeof pattern, "%.*s*", (int)n, name);
	}
	n = (size_t)snprintf(text, bytes, "%s ", kinds[one->kind].option);
	quoted(text + n, text + bytes, pattern);
}

/* In percent of the period; 0 if rounding alone could explain it. */
static double variation(const struct recurring *one)
{
	double variance = one->square - one->period * one->period, root;

	if (one->period <= 0 || variance <= 0)
		return 0;
	root = one->period;
	for (int i = 0; i < 40; i++)
		root = (root + variance / root) / 2;
	return root * 100 / one->period;
}

static void add_rows(cJSON *rows, int64_t pid, struct recurrings *candidates)
{
	size_t of_kind[RECURRING_COUNT] = {0};

	sorted = candidates;
	if (candidates->count)
		qsort(candidates->list, candidates->count, sizeof *candidates->list, by_use);
	for (size_t i = 0; i < candidates->count; i++) {
		const struct recurring *one = &candidates->list[i];
		char text[NAME_MAX_BYTES * 4 + 64];
		cJSON *row;

		if (of_kind[one->kind]++ >= ROWS)
			continue;
		row = need(cJSON_CreateObject());
		json_add_pid(row, pid);
		json_add_text(row, "kind", kinds[one->kind].word);
		json_add_text(row, "name", one->name);
		cJSON_AddNumberToObject(row, "calls", (double)one->calls);
		cJSON_AddNumberToObject(row, "period_ns", (double)(int64_t)one->period);
		cJSON_AddNumberToObject(row, "variation_percent", variation(one));
		option(one, text, sizeof text);
		json_add_text(row, "option", text);
		cJSON_AddItemToArray(rows, row);
	}
}

static int look_at(struct daemons *only, const struct followed *one, cJSON *rows)
{
	struct recurrings candidates;
	struct capture capture;
	int code = capture_open_id(only, one->id, &capture);

	if (code != EXIT_DONE)
		return code;
	recurring_find(&capture.reader, &candidates);
	capture_close(&capture);
	add_rows(rows, one->pid, &candidates);
	recurring_free(&candidates);
	return EXIT_DONE;
}

static void ignore_row(struct daemon *daemon, const cJSON *row, int fd, void *context)
{
	(void)daemon, (void)row, (void)fd, (void)context;
}

static void forget(struct daemon *daemon, const char *id)
{
	cJSON *request = request_new("rm");
	struct failure failure;

	cJSON_AddItemToArray(need(cJSON_AddArrayToObject(request, "capture_ids")), need(cJSON_CreateString(id)));
	if (!daemon_query(daemon, request, ignore_row, NULL, &failure))
		note("capture %s, made for the look, is still there: %s", id, failure.message);
	cJSON_Delete(request);
}

int look_print(const struct follow *follow, enum output_format format)
{
	cJSON *rows = need(cJSON_CreateArray());
	int code = EXIT_DONE;
	size_t looked = 0;

	for (size_t i = 0; i < follow->count; i++) {
		const struct followed *one = &follow->captures[i];
		struct daemons only = {.list = {follow->daemons->list[one->daemon]}, .count = 1};

		if (!one->captured || follow->open[one->daemon] || strcmp(one->status, "failed") == 0)
			continue;
		code = exit_worse(code, look_at(&only, one, rows));
		forget(&only.list[0], one->id);
		looked++;
	}
	listing_print(&listing, rows, format);
	if (looked && code == EXIT_DONE && cJSON_GetArraySize(rows) == 0)
		code = fail(EXIT_NO_STEPS, "nothing came three times in that time; look longer, such as --look 10s, or "
					   "record a window of time with --duration 2s");
	for (size_t i = 0; i < follow->count && code == EXIT_NO_STEPS; i++)
		forked_note(&follow->captures[i].pid, 1);
	cJSON_Delete(rows);
	return code;
}
