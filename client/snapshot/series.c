/* series.c - see series.h. */
#include "series.h"
#include "proto/base/array.h"

#include "client/compare/shift.h"
#include "client/link/collect.h"
#include "client/ui/json.h"
#include "client/ui/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The daemon's own bound of a request's limit: all of them. */
#define ALL_CAPTURES (1 << 30)

static const char *text_of(const cJSON *row, const char *key)
{
	const char *text = json_text(row, key);

	return text ? text : "";
}

struct who who_of(const cJSON *row, bool by_pid)
{
	return (struct who){
		.uid = (int64_t)json_number(row, "uid", -1),
		.job = text_of(row, "job"),
		.name = text_of(row, "name"),
		.rank = (int64_t)json_number(row, "rank", -1),
		.pid = by_pid ? (int64_t)json_number(row, "pid", 0) : 0,
	};
}

bool who_same(const struct who *wanted, const struct who *one)
{
	return wanted->uid == one->uid && wanted->rank == one->rank && strcmp(wanted->job, one->job) == 0 &&
	       strcmp(wanted->name, one->name) == 0 && (!wanted->pid || wanted->pid == one->pid);
}

/* Oldest first. RFC 3339 in UTC sorts as text; of one moment, the smaller number. */
static int by_start(const void *a, const void *b)
{
	const cJSON *one = *(cJSON *const *)a, *other = *(cJSON *const *)b;
	const char *id = text_of(one, "capture_id"), *other_id = text_of(other, "capture_id");
	int order = strcmp(text_of(one, "started_at"), text_of(other, "started_at"));

	if (order == 0)
		order = (strlen(id) > strlen(other_id)) - (strlen(id) < strlen(other_id));
	return order ? order : strcmp(id, other_id);
}

static bool holds_steps(const cJSON *capture)
{
	return json_text(capture, "finished_at") && json_number(capture, "steps_recorded", 0) > 0;
}

cJSON *series_query(struct daemons *daemons, const char *label, const char *job, struct failure *failure)
{
	cJSON *request = request_new("captures");
	struct collect collect = {"capture", need(cJSON_CreateArray())};

	need(cJSON_AddNumberToObject(request, "limit", ALL_CAPTURES));
	/* The daemon's filters are patterns. A job whose name could be read as a pattern is compared here instead. */
	if (*label && !strpbrk(label, "*?["))
		json_add_text(request, "label", label);
	if (job && !strpbrk(job, "*?["))
		json_add_text(request, "job", job);
	if (!daemons_query(daemons, request, collect_row, &collect, failure)) {
		cJSON_Delete(collect.array);
		collect.array = NULL;
	}
	cJSON_Delete(request);
	for (int i = cJSON_GetArraySize(collect.array); i > 0; i--) {
		const cJSON *capture = cJSON_GetArrayItem(collect.array, i - 1);

		if (!holds_steps(capture) || (*label && strcmp(text_of(capture, "label"), label) != 0) ||
		    (job && strcmp(text_of(capture, "job"), job) != 0))
			cJSON_DeleteItemFromArray(collect.array, i - 1);
	}
	if (collect.array)
		json_sort(collect.array, by_start);
	return collect.array;
}

bool series_needs_pid(const cJSON *captures, const struct who *who)
{
	struct who any = *who;
	const cJSON *capture, *earlier;
	int64_t last = 0;

	any.pid = 0;
	cJSON_ArrayForEach(capture, captures)
	{
		struct who one = who_of(capture, true);

		if (!who_same(&any, &one) || one.pid == last)
			continue;
		last = one.pid;
		/* This pid was there before another one: both lived at the same time. */
		for (earlier = captures->child; earlier != capture; earlier = earlier->next) {
			struct who other = who_of(earlier, true);

			if (who_same(&one, &other))
				return true;
		}
	}
	return false;
}

cJSON *series_surplus(const cJSON *captures, const struct who *who, int64_t keep)
{
	cJSON *ids = need(cJSON_CreateArray());
	int64_t newer = 0;

	for (int i = cJSON_GetArraySize(captures); i > 0; i--) {
		const cJSON *capture = cJSON_GetArrayItem(captures, i - 1);
		struct who one = who_of(capture, true);

		if (!who_same(who, &one) || cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(capture, "pinned")))
			continue;
		if (newer++ >= keep)
			cJSON_AddItemToArray(ids, need(cJSON_CreateString(text_of(capture, "capture_id"))));
	}
	return ids;
}

int64_t series_idle_step(const cJSON *capture, const cJSON *summary)
{
	const cJSON *cost = cJSON_GetObjectItemCaseSensitive(summary, "cost");
	double before = cost ? json_number(cost, "step_before_ns", 0) : 0;
	double ns = before > 0 ? before : json_number(capture, "step_ns", 0);

	/* A daemon may tell anything. */
	return ns > 0 && ns < 9e18 ? (int64_t)ns : 0;
}

static int by_value(const void *a, const void *b)
{
	const double *one = a, *other = b;

	return ORDER(*one, *other);
}

double series_median(double *values, size_t count)
{
	if (!count)
		return 0;
	qsort(values, count, sizeof *values, by_value);
	return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

bool series_is_beyond(const cJSON *steps, const double *earlier, size_t count)
{
	double values[SERIES_EARLIER + SERIES_NOW], p;
	size_t n = 0;

	if (count > SERIES_EARLIER)
		count = SERIES_EARLIER;
	memcpy(values, earlier, count * sizeof *values);
	for (int i = cJSON_GetArraySize(steps); i > 0 && n < SERIES_NOW; i--) {
		const cJSON *step = cJSON_GetArrayItem(steps, i - 1);

		if (cJSON_IsNumber(step))
			values[count + n++] = step->valuedouble;
	}
	shift_test(values, 1, count, n, 0, SHIFT_UP, &p);
	return isnan(p) || p <= SHIFT_LEVEL_ONE;
}

bool series_parse_factor(const char *text, double *ret)
{
	double value = 0, weight = 0;
	bool digits = false;

	for (; (*text >= '0' && *text <= '9') || (*text == '.' && weight == 0); text++) {
		if (*text == '.') {
			weight = 1;
			continue;
		}
		digits = true;
		value = value * 10 + (*text - '0');
		weight *= 10;
	}
	if (weight > 0)
		value /= weight;
	text += *text == 'x';
	*ret = value;
	return digits && !*text && value >= 1 && value <= 1000;
}

char *series_sparkline(const double *values, size_t count, bool unicode)
{
	static const char *const blocks[] = {"\xe2\x96\x81", "\xe2\x96\x82", "\xe2\x96\x83", "\xe2\x96\x84",
					     "\xe2\x96\x85", "\xe2\x96\x86", "\xe2\x96\x87", "\xe2\x96\x88"};
	static const char *const plain[] = {"_", ".", "-", "~", "=", "+", "*", "#"};
	const size_t levels = sizeof blocks / sizeof *blocks;
	double least = INFINITY, most = -INFINITY;
	char *line = need(malloc(3 * count + 1));
	size_t n = 0;

	for (size_t i = 0; i < count; i++) {
		if (values[i] < 0)
			continue;
		least = values[i] < least ? values[i] : least;
		most = values[i] > most ? values[i] : most;
	}
	if (most - least < most / 10) {
		least = (least + most) / 2 - most / 20;
		most = least + most / 10;
	}
	for (size_t i = 0; i < count; i++) {
		double part = most > least ? (values[i] - least) / (most - least) : 0;
		size_t level = (size_t)(part > 0 ? part * (double)(levels - 1) + 0.5 : 0);
		const char *mark = values[i] < 0 ? " " : unicode ? blocks[level] : plain[level];

		memcpy(line + n, mark, strlen(mark));
		n += strlen(mark);
	}
	line[n] = 0;
	return line;
}

bool series_unicode(void)
{
	static const char *const variables[] = {"LC_ALL", "LC_CTYPE", "LANG"};

	for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
		const char *value = getenv(variables[i]);

		if (value && *value)
			return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
	}
	return false;
}
