/* derive_launches.c - see derive_launches.h. No locks.
 *
 * There are four passes, each in an order of its own: by correlation id (which call launched what), by thread and
 * time (in which range), by correlation id again (rows of `launches`), and by device and time (derive_busy.c). No
 * pass needs more memory than its sorter has. */
#include "derive_launches.h"
#include "proto/base/array.h"
#include "derive_busy.h"
#include "frames.h"
#include "names.h"
#include "rows.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY (32u << 20)

/* What a call does, told by its name. */
enum call_class { CALL_OTHER, CALL_LAUNCHES, CALL_BEGINS_CAPTURE, CALL_ENDS_CAPTURE };
/* The classes of so many names of calls are kept. A capture has fewer names. */
#define CALLED 128u

struct pass {
	struct store *store;
	struct device *device;
	const struct boundaries *boundaries;
	struct launches *result;
	struct sorter by_thread, by_correlation, busy, changes;
	bool by_time; /* no operation has a call: only an operation's own start tells its step */
	struct busy_skews skews;
	uint32_t nearby; /* step of the call, or operation, with the id just before; 0 = none yet */
	uint32_t items;	 /* items looked at so far */
	struct {
		uint32_t name;
		enum call_class class;
	} called[CALLED];
	uint32_t called_count,
		capturing; /* captures of streams under way: what they launch runs later, and elsewhere */
	uint64_t doubt;	   /* times of calls may be off by so many ns against those of ranges */
};

static void change(struct pass *pass, const struct device_item *item, enum device_what what, uint32_t step)
{
	struct device_change c = {.row = item->row, .step = step, .kind = item->kind, .what = (uint8_t)what};
	sorter_add(&pass->changes, &c);
}

static uint32_t step_by_time(const struct pass *pass, const struct device_item *item)
{
	return item->start ? boundaries_find(pass->boundaries, (int64_t)(item->start - pass->store->base)) : 0;
}

/* No step launched the operation. Was it launched before the first step, and still running in the recording? */
static bool reaches_in(const struct pass *pass, const struct device_item *item, const struct device_item *call)
{
	const struct device *device = pass->device;
	const struct boundaries *boundaries = pass->boundaries;
	if (!item->start || !boundaries->count)
		return false;
	int64_t first = (int64_t)boundaries->steps[0].start,
		last = (int64_t)boundaries->steps[boundaries->count - 1].end;
	int64_t base = (int64_t)(pass->store->base - busy_skew(&pass->skews, item->device));
	int64_t start = (int64_t)item->start - base, end = start + (int64_t)item->duration;
	if (end <= first || start >= last)
		return false;
	if (call)
		return (int64_t)(call->start - pass->store->base) < first;
	return device->calls ? item->order < device->first_order : start < first;
}

/* The step of operations whose call is missing. Ids grow with time: an operation whose id lies between the ids of
 * recorded calls was launched when its neighbours were. */
static uint32_t step_without_call(const struct pass *pass, const struct device_item *first)
{
	const struct device *device = pass->device;
	if (pass->by_time) {
		uint32_t step = step_by_time(pass, first);
		return step || first->start ? step : pass->nearby;
	}
	if (!device->calls || first->order < device->first_order || first->order > device->last_order)
		return 0;
	return pass->nearby;
}

/* Waits and CUDA events have times of their own and no row in `launches`. */
static void place_wait(struct pass *pass, const struct device_item *item, const struct device_item *call)
{
	uint32_t step = call ? call->step : step_by_time(pass, item);
	change(pass, item, step ? CHANGE_STEP : CHANGE_REMOVE, step);
	pass->result->removed += !step;
}

static void count_operation(struct pass *pass, const struct device_item *item, uint32_t step)
{
	struct sum key = {.a = item->name, .b = item->device, .c = item->stream, .step = step};
	struct busy_operation operation = {.start = item->start,
					   .end = item->start + item->duration,
					   .step = step & 0xffffffu,
					   .device = item->device,
					   .stream = item->stream,
					   .context = item->context,
					   .kind = item->kind};
	switch (item->kind) {
	case EVENT_KERNEL:
		key.table = SUM_KERNELS;
		break;
	case EVENT_COPY:
		key.table = SUM_COPIES;
		key.a = item->name << 16 | (uint32_t)item->source_kind << 8 | item->target_kind;
		break;
	case EVENT_SET:
		key.table = SUM_SETS;
		break;
	case EVENT_GRAPH_LAUNCH:
		key.table = SUM_GRAPHS;
		break;
	default:
		store_set_error(pass->store, -EINVAL, BUSY_KIND_UNKNOWN);
		return;
	}
	sums_add(&pass->device->sums, pass->store, &key, item->duration, item->bytes, item->start != 0);
	sorter_add(&pass->busy, &operation);
}

static void add_to_launch(struct launch *launch, const struct device_item *item)
{
	uint64_t end = item->start + item->duration;
	launch->operations += launch->operations < UINT32_MAX;
	if (!item->start)
		return;
	launch->device_time += item->duration;
	if (!launch->first || item->start < launch->first)
		launch->first = item->start;
	if (end > launch->last)
		launch->last = end;
}

static enum call_class class_of(struct pass *pass, uint32_t name)
{
	for (uint32_t i = 0; i < pass->called_count; i++)
		if (pass->called[i].name == name)
			return pass->called[i].class;
	enum call_class class = CALL_OTHER;
	sqlite3_stmt *statement = store_prepare(pass->store, "SELECT text FROM strings WHERE id = ?");
	if (!statement)
		return class;
	sqlite3_bind_int64(statement, 1, name);
	const char *text =
		sqlite3_step(statement) == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : NULL;
	if (text)
		class = strstr(text, "LaunchKernel")	     ? CALL_LAUNCHES
			: strstr(text, "StreamBeginCapture") ? CALL_BEGINS_CAPTURE
			: strstr(text, "StreamEndCapture")   ? CALL_ENDS_CAPTURE
							     : CALL_OTHER;
	sqlite3_finalize(statement);
	if (pass->called_count < CALLED) {
		pass->called[pass->called_count].name = name;
		pass->called[pass->called_count++].class = class;
	}
	return class;
}

/* Takes a call without any operation. Ids grow with time over all threads, so calls come in order. */
static void take_bare(struct pass *pass, const struct device_item *call)
{
	enum call_class class = call->called ? class_of(pass, call->called) : CALL_OTHER;
	if (class == CALL_LAUNCHES)
		pass->result->bare += call->step && !call->failed && !pass->capturing;
	else if (class == CALL_BEGINS_CAPTURE)
		pass->capturing += !call->failed;
	else if (class == CALL_ENDS_CAPTURE && pass->capturing)
		pass->capturing--;
	else if (class == CALL_ENDS_CAPTURE)
		pass->result->bare =
			0; /* that capture of a stream began before the recording: launches up to here belong to it */
}

/* Handles one correlation id: its call, if there is one, then its operations. Returns the first item of the next id. */
static const struct device_item *place_id(struct pass *pass, const struct device_item *item)
{
	struct sorter *items = &pass->device->items;
	struct launches *result = pass->result;
	struct device_item call = *item;
	bool has_call = item->kind == EVENT_API_CALL;
	struct launch launch = {.correlation = item->correlation};
	uint32_t order = item->order, step = 0;
	bool placed = false;
	/* A second record of the same call adds nothing. */
	while (item && item->order == order && item->kind == EVENT_API_CALL)
		item = sorter_next(items);
	if (has_call) {
		step = call.step;
		placed = true;
		if (step)
			pass->nearby = step;
		launch.row = call.row;
		launch.thread = call.thread;
		launch.start = call.start;
		launch.duration = call.duration;
		launch.moment = call.start + (pass->doubt < call.duration / 2 ? pass->doubt : call.duration / 2);
	}
	for (; item && item->order == order; item = sorter_next(items)) {
		if (!device_is_operation(item->kind)) {
			place_wait(pass, item, has_call ? &call : NULL);
			continue;
		}
		if (!placed) {
			step = step_without_call(pass, item);
			placed = true;
		}
		bool doubtful = has_call && call.flags & EVENT_FLAG_DOUBTFUL;
		result->doubtful[item->kind] += doubtful;
		if (!step) {
			bool earlier = reaches_in(pass, item, has_call ? &call : NULL);
			result->earlier[item->kind] += earlier;
			if (earlier)
				count_operation(pass, item, 0);
			else
				change(pass, item, CHANGE_REMOVE, 0);
			result->removed += !earlier;
			continue;
		}
		if (doubtful)
			change(pass, item, CHANGE_DOUBT, 0);
		result->unlaunched[item->kind] += !has_call;
		count_operation(pass, item, step);
		add_to_launch(&launch, item);
	}
	if (!launch.operations) {
		if (has_call)
			take_bare(pass, &call);
		return item;
	}
	launch.step = step;
	pass->nearby = step;
	if (!launch.thread)
		launch.range = 0;
	sorter_add(launch.thread ? &pass->by_thread : &pass->by_correlation, &launch);
	return item;
}

/* --- clocks --- */

/* The largest times by which operations of a device seem to begin before their calls; the largest first. */
#define EARLIEST 64u
struct early {
	uint32_t device, count;
	uint64_t launched;
	uint64_t ns[EARLIEST];
};
/* A larger difference is a wrong time, not an error of a clock. */
#define SKEW_MOST_NS 1000000000u

static struct early *early_of(struct early *early, uint32_t *count, uint32_t device)
{
	for (uint32_t i = 0; i < *count; i++)
		if (early[i].device == device)
			return &early[i];
	if (*count == SKEWS_MOST)
		return NULL;
	early[*count] = (struct early){.device = device};
	return &early[(*count)++];
}

static void add_early(struct early *early, uint64_t ns)
{
	if (early->count == EARLIEST && early->ns[EARLIEST - 1] >= ns)
		return;
	uint32_t i = early->count < EARLIEST ? early->count++ : EARLIEST - 1;
	for (; i > 0 && early->ns[i - 1] < ns; i--)
		early->ns[i] = early->ns[i - 1];
	early->ns[i] = ns;
}

/* Goes once over all items. Does any operation have a call? Is a device's clock ahead of the host's? A few wrong
 * times change nothing: one launch in 64 may be off by more than the result. */
static void look(struct pass *pass)
{
	struct sorter *items = &pass->device->items;
	struct early *early = calloc(SKEWS_MOST, sizeof *early);
	const struct device_item *item;
	struct device_item call = {0};
	uint32_t count = 0;
	pass->by_time = true;
	sorter_rewind(items);
	while ((item = sorter_next(items)) != NULL) {
		if (item->kind == EVENT_API_CALL) {
			if (call.kind != EVENT_API_CALL || call.order != item->order)
				call = *item;
			continue;
		}
		if (!device_is_operation(item->kind) || call.kind != EVENT_API_CALL || call.order != item->order)
			continue;
		pass->by_time = false;
		struct early *of = early && item->start ? early_of(early, &count, item->device) : NULL;
		if (!of)
			continue;
		of->launched++;
		if (item->start < call.start && call.start - item->start < SKEW_MOST_NS)
			add_early(of, call.start - item->start);
	}
	for (uint32_t i = 0; i < count; i++) {
		uint64_t rank = early[i].launched / EARLIEST;
		rank = rank < EARLIEST ? rank : EARLIEST - 1;
		if (rank >= early[i].count || early[i].ns[rank] <= pass->doubt)
			continue;
		pass->skews.of[pass->skews.count].device = early[i].device;
		pass->skews.of[pass->skews.count++].ns = early[i].ns[rank];
	}
	free(early);
}

/* --- the rows --- */

static void write_launches(struct pass *pass)
{
	struct store *store = pass->store;
	struct rows rows;
	const struct launch *l;
	rows_begin(&rows, store, "launches", 9);
	sorter_rewind(&pass->by_correlation);
	while ((l = sorter_next(&pass->by_correlation)) != NULL) {
		const int64_t values[] = {
			l->correlation,
			l->row ? (int64_t)l->row : ROWS_NULL,
			l->step,
			l->thread ? (int64_t)l->thread : ROWS_NULL,
			l->range ? (int64_t)l->range : ROWS_NULL,
			l->row ? (int64_t)(l->start - store->base) : ROWS_NULL,
			l->row ? (int64_t)l->duration : ROWS_NULL,
			(int64_t)l->device_time,
			(int64_t)l->operations,
		};
		rows_add(&rows, values);
	}
	rows_end(&rows);
}

/* Rows with consecutive numbers are changed by one statement. */
static void apply_changes(struct pass *pass, struct sorter *changes)
{
	struct store *store = pass->store;
	const struct device_change *c;
	struct device_change from = {0};
	uint64_t last = 0;
	sqlite3_stmt *statement = NULL;
	uint8_t kind = 0, what = 0;
	sorter_rewind(changes);
	do {
		c = sorter_next(changes);
		if (c && from.row && c->kind == from.kind && c->what == from.what && c->step == from.step &&
		    c->row == last + 1) {
			last = c->row;
			continue;
		}
		if (from.row && statement) {
			sqlite3_bind_int64(statement, 1, (int64_t)from.row);
			sqlite3_bind_int64(statement, 2, (int64_t)last);
			if (what == CHANGE_STEP)
				sqlite3_bind_int64(statement, 3, from.step);
			if (sqlite3_step(statement) != SQLITE_DONE)
				store_fail(store, "writing");
			sqlite3_reset(statement);
		}
		if (!c)
			break;
		if (!statement || c->kind != kind || c->what != what) {
			char sql[160];
			static const char *const forms[] = {
				[CHANGE_REMOVE] = "DELETE FROM %s WHERE rowid BETWEEN ?1 AND ?2",
				[CHANGE_DOUBT] = "UPDATE %s SET flags = flags | 4 WHERE rowid BETWEEN ?1 AND ?2",
				[CHANGE_STEP] = "UPDATE %s SET step = ?3 WHERE rowid BETWEEN ?1 AND ?2",
			};
			_Static_assert(EVENT_FLAG_DOUBTFUL == 4, "as the statement has it");
			kind = c->kind;
			what = c->what;
			snprintf(sql, sizeof sql, forms[what], event_table(kind));
			sqlite3_finalize(statement);
			statement = store_prepare(store, sql);
		}
		from = *c;
		last = c->row;
	} while (statement && !store->error);
	sqlite3_finalize(statement);
}

static const char totals_sql[] =
	"INSERT INTO kernel_totals SELECT coalesce(n.name, nullif(a, 0)), b, c, nullif(step, 0), sum(calls), "
	"CAST(total(s.total) AS INTEGER), min(min), max(max) FROM temp.sums s LEFT JOIN kernel_names n ON n.mangled = "
	"a WHERE tab = 1 GROUP BY coalesce(n.name, a), b, c, step;"
	"INSERT INTO copy_totals SELECT a >> 16, a >> 8 & 255, a & 255, b, c, nullif(step, 0), sum(calls), "
	"CAST(total(extra) AS INTEGER), CAST(total(total) AS INTEGER), min(min), max(max) FROM temp.sums WHERE tab = "
	"2 GROUP BY a, b, c, step;"
	"INSERT INTO set_totals SELECT a, b, c, nullif(step, 0), sum(calls), CAST(total(extra) AS INTEGER), "
	"CAST(total(total) AS INTEGER), min(min), max(max) FROM temp.sums WHERE tab = 3 GROUP BY a, b, c, step;"
	"INSERT INTO graph_totals SELECT nullif(a, 0), b, c, nullif(step, 0), sum(calls), CAST(total(total) AS "
	"INTEGER), min(min), max(max) FROM temp.sums WHERE tab = 4 GROUP BY a, b, c, step;"
	"INSERT INTO api_totals SELECT nullif(a, 0), b, step, sum(calls), CAST(total(total) AS INTEGER), min(min), "
	"max(max), CAST(total(extra) AS INTEGER) FROM temp.sums WHERE tab = 5 GROUP BY a, b, step;";

/* Where CUPTI ran, operators and ranges that launched nothing have 0, not NULL. */
static const char attributed_sql[] =
	"CREATE TEMP TABLE attributed AS SELECT tab, a, b, c, step, CAST(total(extra) AS INTEGER) AS self, "
	"CAST(total(total) AS INTEGER) AS device FROM temp.sums WHERE tab >= 6 GROUP BY tab, a, b, c, step;"
	"CREATE INDEX temp.attributed_key ON attributed (tab, a, step, b, c);"
	"UPDATE operator_totals AS t SET (self_device, device) = (SELECT coalesce(max(self), 0), "
	"coalesce(max(device), 0) FROM temp.attributed a WHERE a.tab = 6 AND a.a = t.name AND a.step = "
	"coalesce(t.step, 0));"
	"UPDATE range_totals AS t SET (self_device, device) = (SELECT coalesce(max(self), 0), coalesce(max(device), "
	"0) FROM temp.attributed a WHERE a.tab = 7 AND a.a = t.name AND a.step = coalesce(t.step, 0) AND a.b = "
	"coalesce(t.domain, 0) AND a.c = t.source);"
	"DROP TABLE temp.attributed; DROP TABLE temp.sums";

static int first_error(struct pass *pass)
{
	const struct sorter *const sorters[] = {&pass->device->items,	    &pass->device->frames, &pass->by_thread,
						&pass->by_correlation,	    &pass->busy,	   &pass->changes,
						&pass->device->rows_outside};
	int error = pass->device->sums.error;
	for (size_t i = 0; !error && i < sizeof sorters / sizeof *sorters; i++)
		error = sorters[i]->error;
	struct store *store = pass->store;
	if (store->error || !error)
		return store->error;
	store->error = error;
	snprintf(store->sentence, sizeof store->sentence, "putting the device's records into order: %s",
		 strerror(-error));
	return error;
}

static int compare_correlations(const void *a, const void *b)
{
	const struct launch *x = a, *y = b;
	return ORDER(x->correlation, y->correlation);
}

/* The clock error that the capture states; 0: it states none. */
static uint64_t clock_error(struct store *store)
{
	sqlite3_stmt *statement = store_prepare(store, "SELECT max(clock_error) FROM sessions");
	uint64_t error = 0;
	if (statement && sqlite3_step(statement) == SQLITE_ROW)
		error = (uint64_t)sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	return error;
}

/* Asks the watch after every 4096 items. */
static bool stops(struct pass *pass)
{
	return pass->store->error || ((++pass->items & 0xfff) == 0 && store_over(pass->store));
}

int launches_run(struct store *store, struct device *device, const struct boundaries *boundaries, struct launches *ret)
{
	struct launches result = {0};
	struct pass pass = {.store = store,
			    .device = device,
			    .boundaries = boundaries,
			    .result = &result,
			    .doubt = clock_error(store)};
	sorter_init(&pass.by_thread, device->folder, device->memory, sizeof(struct launch), MEMORY,
		    frames_compare_launches);
	sorter_init(&pass.by_correlation, device->folder, device->memory, sizeof(struct launch), MEMORY,
		    compare_correlations);
	sorter_init(&pass.changes, device->folder, device->memory, sizeof(struct device_change), MEMORY / 4,
		    device_compare_changes);
	busy_init(&pass.busy, device->folder, device->memory);
	look(&pass);
	sorter_rewind(&device->items);
	for (const struct device_item *item = sorter_next(&device->items); item && !stops(&pass);)
		item = place_id(&pass, item);
	/* Each sorter gives its memory back as soon as it is read. */
	int error = device->items.error;
	sorter_deinit(&device->items);
	device->items.error = error;
	if (!first_error(&pass))
		frames_run(store, device, boundaries, &pass.by_thread, &pass.by_correlation);
	sorter_deinit(&pass.by_thread);
	if (!first_error(&pass))
		write_launches(&pass);
	sorter_deinit(&pass.by_correlation);
	if (!first_error(&pass))
		busy_write(&pass.busy, boundaries, &pass.skews, store);
	sorter_deinit(&pass.busy);
	if (!first_error(&pass)) {
		result.removed += device->rows_outside.total;
		apply_changes(&pass, &pass.changes);
		apply_changes(&pass, &device->rows_outside);
	}
	if (!first_error(&pass))
		sums_write(&device->sums, store);
	if (!first_error(&pass)) {
		names_write(store, &result.mangled);
		store_run(store, totals_sql);
		store_run(store, attributed_sql);
	}
	first_error(&pass);
	sorter_deinit(&pass.changes);
	if (!store->error)
		*ret = result;
	return store->error;
}
