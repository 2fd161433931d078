/* devices.c - see devices.h. Runs in the caller's thread; profd_device() in that of each connection. */
#include "devices.h"

#include "proto/base/array.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

/* One row into the array's last element, which is zeroed. */
typedef void (*take_row)(sqlite3_stmt *row, void *element);

/* Reads all rows of a query into an array, `most` at the most. */
static int load(const struct reader *r, const char *sql, size_t element, size_t most, take_row take, void **ret_array,
		size_t *ret_count)
{
	sqlite3_stmt *row;
	char *array = NULL;
	size_t count = 0, size = 0;
	int error = 0, result = SQLITE_DONE;
	if (sqlite3_prepare_v2(r->db, sql, -1, &row, NULL) != SQLITE_OK)
		return -EIO;
	while (!error && count < most && (result = sqlite3_step(row)) == SQLITE_ROW) {
		char *grown = array_grow(array, count, &size, element);
		if (!grown) {
			error = -ENOMEM;
			break;
		}
		array = grown;
		memset(array + count * element, 0, element);
		take(row, array + count++ * element);
	}
	sqlite3_finalize(row);
	if (!error && result != SQLITE_DONE && result != SQLITE_ROW)
		error = -EIO;
	*ret_array = array;
	*ret_count = count;
	return error;
}

static uint32_t number(sqlite3_stmt *row, int column)
{
	return (uint32_t)sqlite3_column_int64(row, column);
}

static void take_device(sqlite3_stmt *row, void *element)
{
	struct device *d = element;
	*d = (struct device){
		.id = number(row, 0),
		.described = true,
		.name = sqlite3_column_int64(row, 1),
		.memory = sqlite3_column_int64(row, 2),
		.registers_block = number(row, 3),
		.max_threads_block = number(row, 4),
		.limits =
			{
				.capability_major = number(row, 5),
				.capability_minor = number(row, 6),
				.multiprocessors = number(row, 7),
				.warp = number(row, 8),
				.max_threads = number(row, 9),
				.max_blocks = number(row, 10),
				.registers = number(row, 11),
				.shared = number(row, 12),
				.shared_block = number(row, 13),
			},
	};
}

static void take_context(sqlite3_stmt *row, void *element)
{
	*(struct device_context *)element = (struct device_context){.id = number(row, 0), .device = number(row, 1)};
}

static void take_stream(sqlite3_stmt *row, void *element)
{
	*(struct device_stream *)element = (struct device_stream){
		.context = number(row, 0), .id = number(row, 1), .name = sqlite3_column_int64(row, 2)};
}

static void take_event(sqlite3_stmt *row, void *element)
{
	*(struct device_event *)element = (struct device_event){
		.context = number(row, 0),
		.event = number(row, 1),
		.correlation = number(row, 2),
		.stream = number(row, 3),
	};
}

static void take_id(sqlite3_stmt *row, void *element)
{
	*(uint32_t *)element = number(row, 0);
}

static int compare_ids(uint32_t a, uint32_t b)
{
	return ORDER(a, b);
}

static int compare_devices(const void *left, const void *right)
{
	return compare_ids(((const struct device *)left)->id, ((const struct device *)right)->id);
}

static int compare_contexts(const void *left, const void *right)
{
	return compare_ids(((const struct device_context *)left)->id, ((const struct device_context *)right)->id);
}

static int compare_streams(const void *left, const void *right)
{
	const struct device_stream *a = left, *b = right;
	return a->device != b->device ? compare_ids(a->device, b->device) : compare_ids(a->id, b->id);
}

static int compare_events(const void *left, const void *right)
{
	const struct device_event *a = left, *b = right;
	return a->context != b->context ? compare_ids(a->context, b->context)
	       : a->event != b->event	? compare_ids(a->event, b->event)
					: compare_ids(a->correlation, b->correlation);
}

static int compare_runtime_ids(const void *left, const void *right)
{
	return compare_ids(*(const uint32_t *)left, *(const uint32_t *)right);
}

int devices_load(struct devices *d, const struct reader *r, int64_t schema)
{
	*d = (struct devices){0};
	if (schema < 2)
		return 0;
	void *devices = NULL, *contexts = NULL, *streams = NULL, *events = NULL, *ids = NULL;
	int error =
		load(r,
		     "SELECT id, name, memory, registers_block, max_threads_block, capability_major, "
		     "capability_minor, multiprocessors, warp, max_threads_multiprocessor, "
		     "max_blocks_multiprocessor, registers_multiprocessor, shared_multiprocessor, shared_block FROM "
		     "devices",
		     sizeof *d->all, 4096, take_device, &devices, &d->count);
	if (!error)
		error = load(r, "SELECT id, device FROM contexts", sizeof *d->contexts, 65536, take_context, &contexts,
			     &d->context_count);
	if (!error)
		error = load(r, "SELECT context, id, name FROM streams WHERE name IS NOT NULL", sizeof *d->streams,
			     65536, take_stream, &streams, &d->stream_count);
	if (!error)
		error = load(r, "SELECT context, event, correlation, stream FROM cuda_events", sizeof *d->events,
			     DEVICE_EVENTS_MAX, take_event, &events, &d->event_count);
	/* 1: the driver's, as CUPTI numbers them. */
	if (!error)
		error = load(r,
			     "SELECT correlation FROM api_calls WHERE domain <> 1 AND EXISTS (SELECT 1 FROM api_calls "
			     "WHERE domain = 1)",
			     sizeof *d->runtime_ids, DEVICE_RUNTIME_IDS_MAX, take_id, &ids, &d->runtime_id_count);
	d->all = devices;
	d->contexts = contexts;
	d->streams = streams;
	d->events = events;
	d->runtime_ids = ids;
	if (error) {
		devices_deinit(d);
		return error;
	}
	if (d->count)
		qsort(d->all, d->count, sizeof *d->all, compare_devices);
	if (d->context_count)
		qsort(d->contexts, d->context_count, sizeof *d->contexts, compare_contexts);
	for (size_t i = 0; i < d->stream_count; i++)
		d->streams[i].device = devices_of_context(d, d->streams[i].context);
	if (d->stream_count)
		qsort(d->streams, d->stream_count, sizeof *d->streams, compare_streams);
	if (d->event_count)
		qsort(d->events, d->event_count, sizeof *d->events, compare_events);
	if (d->runtime_id_count)
		qsort(d->runtime_ids, d->runtime_id_count, sizeof *d->runtime_ids, compare_runtime_ids);
	return 0;
}

void devices_deinit(struct devices *d)
{
	free(d->all);
	/* NOLINTNEXTLINE(-Wanalyzer-double-free): each array is one that array_grow() made from NULL, not the one before */
	free(d->contexts);
	free(d->streams);
	free(d->events);
	free(d->runtime_ids);
	*d = (struct devices){0};
}

const struct device *devices_find(const struct devices *d, uint32_t id)
{
	const struct device key = {.id = id};
	return d->count ? bsearch(&key, d->all, d->count, sizeof key, compare_devices) : NULL;
}

int devices_use(struct devices *d, uint32_t id)
{
	for (size_t i = 0; i < d->count; i++)
		if (d->all[i].id == id) {
			d->all[i].used = true;
			return 0;
		}
	struct device *grown = realloc(d->all, (d->count + 1) * sizeof *grown);
	if (!grown)
		return -ENOMEM;
	d->all = grown;
	d->all[d->count++] = (struct device){.id = id, .used = true};
	qsort(d->all, d->count, sizeof *d->all, compare_devices);
	return 0;
}

uint32_t devices_of_context(const struct devices *d, uint32_t context)
{
	const struct device_context key = {.id = context},
				    *found = d->context_count ? bsearch(&key, d->contexts, d->context_count, sizeof key,
									compare_contexts)
							      : NULL;
	return found ? found->device : d->count ? d->all[0].id : 0;
}

int64_t devices_stream_name(const struct devices *d, uint32_t device, uint32_t stream)
{
	const struct device_stream key = {.device = device, .id = stream},
				   *found = d->stream_count ? bsearch(&key, d->streams, d->stream_count, sizeof key,
								      compare_streams)
							    : NULL;
	return found ? found->name : 0;
}

const struct device_event *devices_event(const struct devices *d, uint32_t context, uint32_t event,
					 uint32_t correlation)
{
	const struct device_event key = {.context = context, .event = event, .correlation = correlation};
	/* The first that comes after the wait. */
	size_t low = ARRAY_BEFORE(d->event_count, middle, compare_events(&d->events[middle], &key) <= 0);
	const struct device_event *last = low ? &d->events[low - 1] : NULL;
	return last && last->context == context && last->event == event ? last : NULL;
}

bool devices_runtime_call(const struct devices *d, uint32_t correlation)
{
	return d->runtime_id_count && bsearch(&correlation, d->runtime_ids, d->runtime_id_count, sizeof correlation,
					      compare_runtime_ids) != NULL;
}

static void device_of(sqlite3_context *context, int count, sqlite3_value **values)
{
	(void)count;
	const struct devices *d = sqlite3_user_data(context);
	sqlite3_result_int64(context, devices_of_context(d, (uint32_t)sqlite3_value_int64(values[0])));
}

int devices_register(const struct devices *d, const struct reader *r)
{
	return sqlite3_create_function_v2(r->db, "profd_device", 1,
					  SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY, (void *)d, device_of,
					  NULL, NULL, NULL) == SQLITE_OK
		       ? 0
		       : -EIO;
}
