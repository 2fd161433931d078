/* side.c - see side.h. */
#include "side.h"
#include "proto/base/array.h"

#include "client/link/collect.h"
#include "client/report/query.h"
#include "client/report/recorded.h"
#include "client/ui/figure.h"
#include "client/ui/json.h"
#include "client/ui/text.h"
#include "store/breakdown/breakdown.h"

#include "proto/events.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The daemon's own bound of a request's limit: all of them. */
#define ALL_CAPTURES (1 << 30)
#define RANGES_MOST 64

struct range {
	int64_t first, last;
};

/* --- the notation --- */

/* "2", "1-3,5": false where it is none of these. */
static bool parse_ranges(const char *text, struct range *ranges, size_t *ret_count)
{
	size_t count = 0;
	for (;;) {
		char *end;
		if (count == RANGES_MOST || *text < '0' || *text > '9')
			return false;
		struct range range = {.first = strtoll(text, &end, 10)};
		range.last = range.first;
		if (*end == '-' && end[1] >= '0' && end[1] <= '9')
			range.last = strtoll(end + 1, &end, 10);
		if (range.first < 1 || range.last < range.first)
			return false;
		ranges[count++] = range;
		*ret_count = count;
		if (!*end)
			return true;
		if (*end != ',')
			return false;
		text = end + 1;
	}
}

static bool is_there(const char *path)
{
	return strchr(path, '/') && access(path, F_OK) == 0;
}

/* --- which captures --- */

static int add_capture(struct side *side, struct capture *capture)
{
	if (side->count == SIDE_CAPTURES_MOST) {
		capture_close(capture);
		return fail(EXIT_USAGE, "%s are more than %d captures; name fewer", side->word, SIDE_CAPTURES_MOST);
	}
	side->captures = need(reallocarray(side->captures, side->count + 1, sizeof *side->captures));
	side->captures[side->count++] = (struct side_capture){.capture = *capture};
	return EXIT_DONE;
}

static int open_one(struct side *side, const char *which)
{
	struct capture capture;
	int code = capture_open(which, &capture);
	return code ? code : add_capture(side, &capture);
}

static int open_list(struct side *side, const char *words)
{
	char *list = need(strdup(words)), *at = list, *word;
	int code = EXIT_DONE;
	while (code == EXIT_DONE && (word = strsep(&at, ",")) != NULL)
		code = *word ? open_one(side, word)
			     : fail(EXIT_USAGE, "%s: a capture's name is missing between the commas", words);
	free(list);
	return code;
}

static bool is_member(const cJSON *row, const char *key, const char *value)
{
	const char *text = json_text(row, key);
	return text && strcmp(text, value) == 0;
}

/* Rows come newest first. Of a job the newest trigger alone is meant. */
static int open_matching(struct side *side, struct daemons *daemons, const cJSON *rows, const char *key,
			 const char *value)
{
	const char *trigger = NULL, *daemon = NULL;
	int code = EXIT_DONE;
	const cJSON *row;
	cJSON_ArrayForEach(row, rows)
	{
		const char *id = json_text(row, "capture_id");
		struct capture capture;
		if (code != EXIT_DONE || !id || !is_member(row, key, value) || !json_text(row, "finished_at"))
			continue;
		if (strcmp(key, "job") == 0) {
			trigger = trigger ? trigger : json_text(row, "trigger_id");
			daemon = daemon ? daemon : json_text(row, "daemon");
			if (!trigger || !daemon || !is_member(row, "trigger_id", trigger) ||
			    !is_member(row, "daemon", daemon))
				continue;
		}
		code = capture_open_id(daemons, id, &capture);
		if (code == EXIT_DONE)
			code = add_capture(side, &capture);
	}
	if (code == EXIT_DONE && !side->count)
		code = fail(EXIT_NO_TARGET, "there is no finished capture of %s %s; `profd captures` lists them", key,
			    value);
	return code;
}

static int open_query(struct side *side, const char *key, const char *value)
{
	struct daemons daemons;
	cJSON *request, *rows = NULL;
	int code = daemons_need(&daemons);
	if (code)
		return code;
	request = request_new("captures");
	need(cJSON_AddNumberToObject(request, "limit", ALL_CAPTURES));
	code = collect_rows(&daemons, request, "capture", &rows);
	if (code == EXIT_DONE)
		code = open_matching(side, &daemons, rows, key, value);
	cJSON_Delete(rows);
	cJSON_Delete(request);
	daemons_deinit(&daemons);
	return code;
}

static int open_captures(struct side *side, const char *name)
{
	static const struct {
		const char *prefix, *key;
	} queries[] = {{"trigger:", "trigger_id"}, {"label:", "label"}, {"job:", "job"}};
	for (size_t i = 0; i < sizeof queries / sizeof *queries; i++)
		if (strncmp(name, queries[i].prefix, strlen(queries[i].prefix)) == 0)
			return open_query(side, queries[i].key, name + strlen(queries[i].prefix));
	return strchr(name, ',') && !is_there(name) ? open_list(side, name) : open_one(side, name);
}

/* --- their steps --- */

static int by_ordinal(const void *a, const void *b)
{
	const struct side_step *one = *(struct side_step *const *)a, *other = *(struct side_step *const *)b;
	return ORDER(one->ordinal, other->ordinal);
}

static void load_steps(struct side *side, struct side_capture *capture)
{
	const struct reader *reader = &capture->capture.reader;
	sqlite3_stmt *statement;
	struct breakdown_holders holders = {0};
	unsigned unusual;
	char sql[1024];
	size_t room = 0;

	snprintf(
		sql, sizeof sql,
		"SELECT step, number, start, duration, source, coalesce((SELECT ns FROM (%s) e WHERE e.step = s.step), 0), "
		"coalesce((SELECT ns FROM (%s) c WHERE c.step = s.step), 0) FROM steps s ORDER BY start",
		report_evaluates(reader) ? REPORT_EVALUATIONS : REPORT_NO_EVALUATIONS,
		report_compiles_in_steps(reader) ? REPORT_COMPILATIONS : REPORT_NO_EVALUATIONS);
	statement = report_prepare(reader, sql);
	while (report_next(reader, statement)) {
		if (capture->count == room) {
			room = room ? room * 2 : 64;
			capture->steps = need(reallocarray(capture->steps, room, sizeof *capture->steps));
		}
		capture->steps[capture->count++] = (struct side_step){
			.ordinal = sqlite3_column_int64(statement, 0),
			.number = sqlite3_column_int64(statement, 1),
			.start = figure_time(sqlite3_column_int64(statement, 2)),
			.wall = figure_length(sqlite3_column_int64(statement, 3)),
			.holds = (sqlite3_column_int64(statement, 5) > 0 ? HOLDS_EVALUATION : 0) |
				 (sqlite3_column_int64(statement, 6) > 0 ? HOLDS_COMPILATION : 0),
			.unit = SIZE_MAX,
		};
		breakdown_count(&holders, capture->steps[capture->count - 1].holds);
		side->window |= sqlite3_column_int(statement, 4) == STEP_SOURCE_DURATION;
	}
	unusual = breakdown_unusual(&holders);
	for (size_t i = 0; i < capture->count; i++)
		capture->steps[i].holds &= unusual;
	capture->by_ordinal = need(calloc(capture->count + 1, sizeof(struct side_step *)));
	for (size_t i = 0; i < capture->count; i++)
		capture->by_ordinal[i] = &capture->steps[i];
	qsort(capture->by_ordinal, capture->count, sizeof *capture->by_ordinal, by_ordinal);
}

/* A number means an ordinal; a larger one than there are steps may be the process's own. */
static bool is_chosen(const struct side_capture *capture, const struct side_step *step, const struct range *ranges,
		      size_t count)
{
	for (size_t i = 0; i < count; i++) {
		bool own = ranges[i].last > (int64_t)capture->count;
		int64_t number = own ? step->number : step->ordinal;
		if (number >= ranges[i].first && number <= ranges[i].last)
			return true;
	}
	return count == 0 && !step->holds;
}

int64_t side_rank(const struct side_capture *capture)
{
	return reader_meta_int(&capture->capture.reader, "rank", -1);
}

static const char *meta(struct side_capture *capture, const char *key)
{
	const char *text = reader_meta_text(&capture->capture.reader, key);
	return text ? text : "";
}

/* Both are known to be of different machines: each has triggers of its own. */
static bool of_other_machines(struct side_capture *one, struct side_capture *other)
{
	const char *host = meta(one, "host"), *other_host = meta(other, "host");
	return *host && *other_host && strcmp(host, other_host) != 0;
}

/* Did these record the same steps at the same time, as ranks of one job? Traces that were imported have no trigger: different
 * ranks are taken for one run. */
static bool is_together(struct side_capture *one, struct side_capture *other)
{
	const char *key = of_other_machines(one, other) ? "job" : "trigger_id";
	int64_t rank = side_rank(one), other_rank = side_rank(other);
	return rank >= 0 && other_rank >= 0 && rank != other_rank && strcmp(meta(one, key), meta(other, key)) == 0 &&
	       reader_meta_int(&one->capture.reader, "cycle", 0) == reader_meta_int(&other->capture.reader, "cycle", 0);
}

/* CLOCK_MONOTONIC ns at the capture's base; 0: nobody knows it. */
static int64_t clock_base(struct side_capture *capture)
{
	struct reader *reader = &capture->capture.reader;
	return reader_meta_text(reader, "trigger_id") ? figure_time(reader_meta_int(reader, "base_monotonic", 0)) : 0;
}

bool side_clock(struct side_capture *one, struct side_capture *other, int64_t *ret_later)
{
	const char *host = meta(one, "host");
	int64_t base = clock_base(one), other_base = clock_base(other);
	if (!base || !other_base || !*host || strcmp(host, meta(other, "host")) != 0)
		return false;
	*ret_later = base - other_base;
	return true;
}

/* The one of other's steps that this one shares most of its time with: more than half. `later`: what is to be added to this one's times. */
static const struct side_step *same_time(const struct side_capture *other, const struct side_step *step, int64_t later)
{
	const struct side_step *best = NULL;
	int64_t start = step->start + later, end = start + step->wall, most = 0;
	size_t first = ARRAY_BEFORE(other->count, at, other->steps[at].start + other->steps[at].wall <= start);
	for (size_t i = first; i < other->count && other->steps[i].start < end; i++) {
		const struct side_step *one = &other->steps[i];
		int64_t from = one->start > start ? one->start : start;
		int64_t to = one->start + one->wall < end ? one->start + one->wall : end;
		if (to - from > most) {
			most = to - from;
			best = one;
		}
	}
	return best && most > (step->wall < best->wall ? step->wall : best->wall) / 2 ? best : NULL;
}

/* A window of time has none, and the first step of some programs is 0. */
static bool have_numbers(const struct side_capture *one, const struct side_capture *other)
{
	return one->count && other->count && one->steps[one->count - 1].number > 0 &&
	       other->steps[other->count - 1].number > 0;
}

static const struct side_step *same_number(const struct side_capture *other, int64_t number)
{
	size_t place = ARRAY_BEFORE(other->count, at, other->steps[at].number < number);
	return place < other->count && other->steps[place].number == number ? &other->steps[place] : NULL;
}

/* The unit that a step of another rank, which was recorded together with this one, has already: the step at the same time, where they share a clock; else the one
 * of the same number; else of the same place in the capture. SIZE_MAX: none. */
static size_t unit_beside(struct side_capture *capture, const struct side_step *step, struct side_capture *other)
{
	int64_t later;
	const struct side_step *same;
	if (side_clock(capture, other, &later))
		same = same_time(other, step, later);
	else if (have_numbers(capture, other))
		same = same_number(other, step->number);
	else
		return side_unit(other, step->ordinal);
	return same ? same->unit : SIZE_MAX;
}

/* Has the same rank this unit already? A rank does each step once: what more files of it hold are other steps. */
static void mark_units(const struct side *side, size_t index, bool *taken)
{
	int64_t rank = side_rank(&side->captures[index]);
	for (size_t c = 0; c < index; c++) {
		const struct side_capture *other = &side->captures[c];
		size_t count = side_rank(other) == rank ? other->count : 0;
		for (size_t i = 0; i < count; i++)
			if (other->steps[i].unit != SIZE_MAX)
				taken[other->steps[i].unit] = true;
	}
}

/* Gives each chosen step its unit: that of an earlier capture's step, or a new one. */
static void make_units(struct side *side, size_t index, const struct range *ranges, size_t range_count)
{
	struct side_capture *capture = &side->captures[index];
	bool *taken = need(calloc(side->units + capture->count + 1, sizeof *taken));
	mark_units(side, index, taken);
	for (size_t i = 0; i < capture->count; i++) {
		struct side_step *step = &capture->steps[i];
		if (!is_chosen(capture, step, ranges, range_count)) {
			side->left_out += !range_count;
			side->held |= range_count ? 0 : step->holds;
			continue;
		}
		for (size_t other = 0; other < index && step->unit == SIZE_MAX; other++)
			if (is_together(capture, &side->captures[other])) {
				step->unit = unit_beside(capture, step, &side->captures[other]);
				if (step->unit != SIZE_MAX && taken[step->unit])
					step->unit = SIZE_MAX;
			}
		if (step->unit == SIZE_MAX)
			step->unit = side->units++;
		taken[step->unit] = true;
	}
	free(taken);
}

static void add_walls(struct side *side)
{
	side->ranks = need(calloc(side->units + 1, sizeof *side->ranks));
	side->walls = need(calloc(side->units + 1, sizeof *side->walls));
	for (size_t c = 0; c < side->count; c++)
		for (size_t i = 0; i < side->captures[c].count; i++) {
			const struct side_step *step = &side->captures[c].steps[i];
			if (step->unit == SIZE_MAX)
				continue;
			side->ranks[step->unit]++;
			side->walls[step->unit] += (double)step->wall;
		}
	for (size_t unit = 0; unit < side->units; unit++)
		side->walls[unit] /= side->ranks[unit];
}

static int make_steps(struct side *side, const struct range *ranges, size_t range_count)
{
	for (size_t i = 0; i < side->count; i++) {
		load_steps(side, &side->captures[i]);
		make_units(side, i, ranges, range_count);
	}
	if (!side->units)
		return fail(EXIT_NO_TARGET, "%s has no such step; `profd show --by steps` lists the steps of a capture",
			    side->word);
	add_walls(side);
	return EXIT_DONE;
}

int side_open(const char *word, struct side *side)
{
	struct range ranges[RANGES_MOST];
	size_t range_count = 0;
	char *name = need(strdup(word)), *at = is_there(word) ? NULL : strrchr(name, '@');
	*side = (struct side){.word = word};
	if (at && parse_ranges(at + 1, ranges, &range_count))
		*at = '\0';
	else
		range_count = 0;
	int code = open_captures(side, name);
	free(name);
	return code ? code : make_steps(side, ranges, range_count);
}

int side_open_all(const char *const *words, size_t count, struct side *side)
{
	int code = EXIT_DONE;
	*side = (struct side){.word = words[0]};
	for (size_t i = 0; code == EXIT_DONE && i < count; i++)
		code = open_captures(side, words[i]);
	return code ? code : make_steps(side, NULL, 0);
}

void side_close(struct side *side)
{
	for (size_t i = 0; i < side->count; i++) {
		capture_close(&side->captures[i].capture);
		free(side->captures[i].steps);
		free(side->captures[i].by_ordinal);
	}
	free(side->captures);
	free(side->ranks);
	free(side->walls);
	*side = (struct side){0};
}

void side_pair(struct side *a, struct side *b)
{
	a->blocks = shift_blocks_of(a->units, b->units);
	b->blocks = shift_blocks_of(b->units, a->units);
}

size_t side_unit(const struct side_capture *capture, int64_t ordinal)
{
	struct side_step key = {.ordinal = ordinal}, *wanted = &key, **found;
	found = bsearch(&wanted, capture->by_ordinal, capture->count, sizeof *capture->by_ordinal, by_ordinal);
	return found ? (*found)->unit : SIZE_MAX;
}

double side_wall(const struct side *side)
{
	double sum = 0;
	for (size_t unit = 0; unit < side->units; unit++)
		sum += side->walls[unit];
	return sum / (double)side->units;
}

void side_walls(const struct side *side, double *to)
{
	memset(to, 0, side->blocks.count * sizeof *to);
	for (size_t unit = 0; unit < side->units; unit++) {
		size_t block = shift_block(&side->blocks, unit);
		if (block != SIZE_MAX)
			to[block] += side->walls[unit] / (double)side->blocks.length;
	}
}
