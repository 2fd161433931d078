/* estimate.c - see estimate.h. Thread: the catalogue's. No locks. */
#include "estimate.h"
#include "captures.h"
#include "catalogue.h"
#include "sql.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Only the newest captures are looked at: for each a file is opened. */
#define CAPTURES_MOST 16

/* The collectors for which an option of the agent's has a meaning. */
#define OF_CUPTI (1u << COLLECTOR_CUPTI)
#define OF_STACKS (1u << COLLECTOR_PYTHON)

static bool text_is(const cJSON *object, const char *key, const char *text)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
	return strcmp(cJSON_IsString(item) ? item->valuestring : "", text) == 0;
}

static double number_of(const cJSON *object, const char *key)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
	return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

/* Was the request of that capture's trigger the same, except for its collectors, schedule and targets? A request that
 * is not kept, or not whole, does not count as the same. */
static bool is_comparable(const char *text, const struct estimate_question *question)
{
	cJSON *request = text ? cJSON_Parse(text) : NULL;
	bool fits = request && number_of(request, "duration") < 1 &&
		    text_is(request, "step_range", question->step_range) &&
		    text_is(request, "step_operator", question->step_operator) &&
		    text_is(request, "step_optimizer", question->step_optimizer) &&
		    text_is(request, "batches", question->batches);
	if (fits && question->collectors & OF_CUPTI)
		fits = text_is(request, "graphs", "whole") == ((question->options & ARM_GRAPHS_WHOLE) != 0) &&
		       text_is(request, "api", "all") == ((question->options & ARM_API_ALL) != 0);
	if (fits && question->collectors & OF_STACKS)
		fits = (uint32_t)number_of(request, "stacks_rate") == question->stacks_rate;
	cJSON_Delete(request);
	return fits;
}

static unsigned bit_of(const cJSON *row)
{
	const cJSON *word = cJSON_GetObjectItemCaseSensitive(row, "collector");
	for (unsigned bit = 0; bit < COLLECTOR_COUNT && cJSON_IsString(word); bit++)
		if (collector_word(bit) && strcmp(collector_word(bit), word->valuestring) == 0)
			return bit;
	return COLLECTOR_COUNT;
}

/* Reads what its summary says of its collectors. `known`: the collectors of which a newer capture has shown whether
 * they are on. */
static void read_collectors(const cJSON *summary, struct estimate_figures *figures, uint32_t *known,
			    const struct estimate_question *question, struct estimate *ret)
{
	const cJSON *row;
	cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(summary, "collectors"))
	{
		unsigned bit = bit_of(row);
		if (bit == COLLECTOR_COUNT)
			continue;
		bool on = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(row, "on"));
		figures->wanted |= 1u << bit;
		figures->ran |= on ? 1u << bit : 0;
		if (!on && question->collectors >> bit & 1 && !(*known >> bit & 1)) {
			const cJSON *sentence = cJSON_GetObjectItemCaseSensitive(row, "sentence");
			ret->off |= 1u << bit;
			ret->off_number[bit] = figures->number;
			text_copy(ret->off_sentence[bit], sizeof ret->off_sentence[bit],
				  cJSON_IsString(sentence) ? sentence->valuestring : "");
		}
		*known |= 1u << bit;
	}
}

/* If a collector was not on, its parts will not be recorded either. */
static void add_parts(const struct estimate_question *question, uint32_t known, struct estimate *ret)
{
	uint32_t whole = ret->off;
	for (unsigned bit = 0; bit < COLLECTOR_COUNT; bit++) {
		uint32_t parts = whole >> bit & 1 ? collector_parts(bit) & question->collectors & ~known : 0;
		for (unsigned part = 0; part < COLLECTOR_COUNT; part++) {
			if (!(parts >> part & 1))
				continue;
			ret->off |= 1u << part;
			ret->off_number[part] = ret->off_number[bit];
			memcpy(ret->off_sentence[part], ret->off_sentence[bit], sizeof ret->off_sentence[part]);
		}
	}
}

static void keep(struct estimate_figures *best, const struct estimate_figures *other, bool better)
{
	if (!best->number || better)
		*best = *other;
}

/* A capture bounds the cost if it had all collectors that would be on, or no others. */
static void judge(const struct estimate_question *question, const struct estimate_figures *one, struct estimate *ret)
{
	uint32_t on = question->collectors & ~ret->off;
	bool all = !(on & ~one->ran), no_more = !(one->ran & ~on);
	int had = __builtin_popcount(one->ran);
	if (all && no_more)
		keep(&ret->same, one, false);
	else if (all)
		keep(&ret->more, one, had < __builtin_popcount(ret->more.ran));
	else if (no_more)
		keep(&ret->fewer, one, had > __builtin_popcount(ret->fewer.ran));
}

static void take(struct catalogue *catalogue, struct estimate_figures *one, uint32_t *known,
		 const struct estimate_question *question, struct estimate *ret)
{
	char *text = catalogue_read_summary(catalogue, one->number);
	cJSON *summary = text ? cJSON_Parse(text) : NULL;
	const cJSON *cost = cJSON_GetObjectItemCaseSensitive(summary, "cost");
	one->step_before = (uint64_t)number_of(cost, "step_before_ns");
	one->step_during = (uint64_t)number_of(cost, "step_during_ns");
	if (summary)
		read_collectors(summary, one, known, question, ret);
	cJSON_Delete(summary);
	free(text);
}

bool estimate_is_known(const struct estimate *estimate)
{
	return estimate->same.number || estimate->more.number || estimate->fewer.number;
}

int catalogue_estimate(struct catalogue *catalogue, const struct estimate_question *question, enum estimate_by by,
		       struct estimate *ret)
{
	memset(ret, 0, sizeof *ret);
	/* Steps before a later cycle were recorded themselves: they do not tell how long an unrecorded step takes. */
	sqlite3_stmt *s = catalogue_prepare(
		catalogue,
		"SELECT c.id, c.steps_recorded, c.events, c.bytes, t.request FROM captures c LEFT JOIN triggers t ON "
		"t.id = c.trigger WHERE (c.pid = ? AND c.start_time = ?) = ? AND c.uid = ? AND coalesce(c.command, '') = ? AND "
		"c.status = ? AND c.cycle = 0 AND c.steps_recorded > 0 AND c.finished IS NOT NULL ORDER BY c.id DESC "
		"LIMIT ?");
	if (!s)
		return -EIO;
	sqlite3_bind_int64(s, 1, question->pid);
	sqlite3_bind_int64(s, 2, (int64_t)question->start_time);
	sqlite3_bind_int(s, 3, by == ESTIMATE_BY_PROCESS);
	sqlite3_bind_int64(s, 4, question->uid);
	sqlite3_bind_text(s, 5, question->command, -1, SQLITE_STATIC);
	sqlite3_bind_text(s, 6, capture_status_word(CAPTURE_COMPLETE), -1, SQLITE_STATIC);
	sqlite3_bind_int(s, 7, CAPTURES_MOST);
	struct estimate_figures seen[CAPTURES_MOST];
	unsigned count = 0;
	uint32_t known = 0;
	while (ret->captures < CAPTURES_MOST && sqlite3_step(s) == SQLITE_ROW) {
		struct estimate_figures one = {.number = catalogue_column_number(s, 0),
					       .steps = catalogue_column_number(s, 1),
					       .events = catalogue_column_number(s, 2),
					       .bytes = catalogue_column_number(s, 3)};
		ret->captures++;
		if (is_comparable((const char *)sqlite3_column_text(s, 4), question))
			take(catalogue, &one, &known, question, ret);
		else
			ret->others++;
		/* A capture whose file cannot be read has no collectors in `wanted`. */
		if (one.wanted)
			seen[count++] = one;
	}
	sqlite3_finalize(s);
	add_parts(question, known, ret);
	for (unsigned i = 0; i < count; i++)
		judge(question, &seen[i], ret);
	return 0;
}
