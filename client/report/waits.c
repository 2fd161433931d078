/* waits.c - see waits.h. */
#include "waits.h"
#include "query.h"
#include "spans.h"

#include "client/ui/json.h"
#include "client/ui/text.h"
#include "proto/base/array.h"

#include <stdlib.h>

struct wait {
	size_t device, step;	 /* indices */
	uint32_t call, operator; /* ids of their names; 0: none */
	int64_t ns;
};

static int by_place(const void *a, const void *b)
{
	const struct wait *x = a, *y = b;

	return ORDER(x->device, y->device) ?: ORDER(x->step, y->step) ?: ORDER(y->ns, x->ns) ?: ORDER(x->call, y->call) ?: ORDER(x->operator, y->operator);
}

/* Idle intervals come in order of time: the same wait's earlier time in this step is among the last entries. */
static void add(struct waits *waits, const struct wait *wait)
{
	for (size_t i = waits->count; i > 0; i--) {
		struct wait *of = &waits->list[i - 1];

		if (of->device != wait->device || of->step != wait->step)
			break;
		if (of->call == wait->call && of->operator== wait->operator) {
			of->ns += wait->ns;
			return;
		}
	}
	NEED_ROOM(waits->list, waits->count, waits->room);
	waits->list[waits->count++] = *wait;
}

static void add_idle(struct waits *waits, const struct breakdown_capture *capture, size_t device, size_t *step,
		     const struct breakdown_idle *idle)
{
	const struct breakdown *breakdown = &capture->breakdown;
	const struct activity *activity = &capture->activity;
	struct wait wait = {.device = device,
			    .call = spans_name(activity, idle->sync_thread, idle->sync_start, SPANS_WAITS),
			    .operator= spans_name(activity, idle->sync_thread, idle->sync_start, SPANS_OPERATORS)};

	while (*step < breakdown->step_count && breakdown->steps[*step].end <= idle->start)
		(*step)++;
	for (size_t i = *step; i < breakdown->step_count && breakdown->steps[i].start < idle->end; i++) {
		const struct breakdown_step *at = &breakdown->steps[i];

		wait.step = i;
		wait.ns = (idle->end < at->end ? idle->end : at->end) -
			  (idle->start > at->start ? idle->start : at->start);
		if (wait.ns > 0)
			add(waits, &wait);
	}
}

struct waits waits_of(const struct breakdown_capture *capture)
{
	struct waits waits = {0};

	for (size_t d = 0; d < capture->breakdown.device_count; d++) {
		const struct breakdown_device *device = &capture->breakdown.devices[d];
		size_t step = 0;

		for (size_t i = 0; i < device->idle_count; i++)
			if (device->idles[i].after_sync)
				add_idle(&waits, capture, d, &step, &device->idles[i]);
	}
	if (waits.count)
		qsort(waits.list, waits.count, sizeof *waits.list, by_place);
	return waits;
}

static void add_name(cJSON *object, const char *key, const struct reader *reader, uint32_t id)
{
	sqlite3_stmt *statement = report_prepare(reader, "SELECT text FROM strings WHERE id = ?1");
	bool found = false;

	sqlite3_bind_int64(statement, 1, (int64_t)id);
	while (report_next(reader, statement)) {
		json_add_text(object, key, (const char *)sqlite3_column_text(statement, 0));
		found = true;
	}
	if (!found)
		need(cJSON_AddNullToObject(object, key));
}

/* The index of the first wait of this device and step, or of a later one. */
static size_t first_of(const struct waits *waits, size_t device, size_t step)
{
	return ARRAY_BEFORE(waits->count, middle,
			    waits->list[middle].device < device ||
				    (waits->list[middle].device == device && waits->list[middle].step < step));
}

cJSON *waits_json(const struct waits *waits, const struct reader *reader, size_t device, size_t step)
{
	cJSON *list = need(cJSON_CreateArray());

	for (size_t i = first_of(waits, device, step);
	     i < waits->count && waits->list[i].device == device && waits->list[i].step == step; i++) {
		cJSON *object = need(cJSON_CreateObject());

		add_name(object, "call", reader, waits->list[i].call);
		add_name(object, "operator", reader, waits->list[i].operator);
		need(cJSON_AddNumberToObject(object, "ns", (double)waits->list[i].ns));
		cJSON_AddItemToArray(list, object);
	}
	return list;
}

void waits_free(struct waits *waits)
{
	free(waits->list);
	*waits = (struct waits){0};
}
