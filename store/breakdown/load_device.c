/* load_device.c - see load_device.h. */
#include "load_device.h"

#include "names.h"
#include "proto/base/array.h"
#include "proto/base/large.h"
#include "sorted.h"

#include <stdlib.h>

/* A call of unknown name that lasts this long while the device has nothing to do sets something up. */
#define SETUP_NS 1000000

/* Kernels of further devices are not judged. */
#define LOAD_DEVICES 64
/* Devices of this capability and later have tensor cores. */
#define TENSOR_CORES_MAJOR 7

/* A row of `launches`. */
struct load_launch {
	int64_t api; /* rowid in api_calls */
	bool called; /* its call was recorded */
	bool in_step;
};

/* A device that the file describes. */
struct load_device {
	int64_t id, multiprocessors, major;
};

/* Rowids or other ids; sorted once all are there. */
struct ids {
	int64_t *items;
	size_t count, room;
	size_t near; /* index of the first one that is not less than the one asked for last */
};

struct load {
	struct scan *scan;
	const struct meanings *meanings;
	struct breakdown_capture *capture;
	struct device_evidence *evidence;
	struct ids pageable;	  /* rowids in api_calls of copies from or to pageable memory */
	struct ids launching;	  /* rowids in api_calls of calls that launched something */
	struct ids correlations;  /* of `launches` */
	struct ids communication; /* ids of names of kernels that communicate */
	struct load_launch *launches;
	size_t launch_room, call_room, id_room, operation_room;
	int64_t *busy;	 /* pairs of start and end of the times in which any device worked, in order */
	int64_t *worked; /* for each pair: how long devices had worked before it */
	size_t busy_count;
	bool busy_made;
	struct load_device devices[LOAD_DEVICES];
	size_t device_count;
};

static bool ids_add(struct load *load, struct ids *ids, int64_t value)
{
	if (!LARGE_GROW(ids->items, ids->count, ids->room)) {
		scan_no_memory(load->scan);
		return false;
	}
	ids->items[ids->count++] = value;
	return true;
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return ORDER(x, y);
}

static void ids_sort(struct ids *ids)
{
	sort_if_needed(ids->items, ids->count, sizeof *ids->items, by_value);
}

/* The index of the first one that is not less than `wanted`. Most are asked for in order: so it looks first at the
 * one asked for last, and at the next ones. */
static size_t ids_from(const struct ids *ids, int64_t wanted)
{
	if (!ids->near || ids->items[ids->near - 1] < wanted)
		for (size_t i = ids->near; i < ids->near + 4; i++)
			if (i == ids->count || ids->items[i] >= wanted)
				return i;
	return ARRAY_BEFORE(ids->count, middle, ids->items[middle] < wanted);
}

/* The index of `wanted`; SIZE_MAX: it is not there. */
static size_t ids_find(struct ids *ids, int64_t wanted)
{
	size_t found = ids->near = ids_from(ids, wanted);
	return found < ids->count && ids->items[found] == wanted ? found : SIZE_MAX;
}

static void take_launch(void *context, const struct scan_row *row)
{
	struct load *load = context;
	bool called = !null_at(row, 1);
	if (called)
		ids_add(load, &load->launching, int_at(row, 1));
	size_t count = load->correlations.count;
	if (!LARGE_GROW(load->launches, count, load->launch_room))
		scan_no_memory(load->scan);
	else if (ids_add(load, &load->correlations, int_at(row, 0)))
		load->launches[count] = (struct load_launch){int_at(row, 1), called, !null_at(row, 2)};
}

static void take_communication(void *context, sqlite3_stmt *row)
{
	struct load *load = context;
	ids_add(load, &load->communication, row_int(row, 0));
}

static int by_start(const void *a, const void *b)
{
	const struct breakdown_operation *x = a, *y = b;
	return ORDER(x->start, y->start);
}

/* Finds the times in which any device worked. */
static void make_busy(struct load *load)
{
	load->busy_made = true;
	struct breakdown_operation *items = load->capture->operations;
	size_t count = load->capture->breakdown.operation_count;
	/* Not cleared: each item is written before it is read. */
	load->busy = large_get(2 * count + 2, sizeof *load->busy);
	load->worked = large_get(count + 1, sizeof *load->worked);
	if (!load->busy || !load->worked) {
		scan_no_memory(load->scan);
		return;
	}
	if (count)
		sort_if_needed(items, count, sizeof *items, by_start);
	for (size_t i = 0; i < count; i++) {
		large_go(sizeof *items);
		int64_t *last = load->busy_count ? &load->busy[2 * (load->busy_count - 1)] : NULL;
		if (last && items[i].start <= last[1]) {
			last[1] = items[i].end > last[1] ? items[i].end : last[1];
			continue;
		}
		load->worked[load->busy_count] = last ? load->worked[load->busy_count - 1] + last[1] - last[0] : 0;
		load->busy[2 * load->busy_count] = items[i].start;
		load->busy[2 * load->busy_count + 1] = items[i].end;
		load->busy_count++;
	}
}

/* How long, in ns, any device had worked before `time`. */
static int64_t worked_before(const struct load *load, int64_t time)
{
	size_t low = ARRAY_BEFORE(load->busy_count, middle, load->busy[2 * middle] < time);
	if (!low)
		return 0;
	int64_t start = load->busy[2 * (low - 1)], end = load->busy[2 * (low - 1) + 1];
	return load->worked[low - 1] + (time < end ? time : end) - start;
}

static bool sets_up(struct load *load, int64_t start, int64_t end)
{
	if (end - start < SETUP_NS)
		return false;
	if (!load->busy_made)
		make_busy(load);
	return load->worked && (worked_before(load, end) - worked_before(load, start)) * 2 < end - start;
}

static void take_call(void *context, const struct scan_row *row)
{
	struct load *load = context;
	struct breakdown_capture *capture = load->capture;
	int64_t id = int_at(row, 0), start = time_at(row, 1), end = end_of(start, int_at(row, 2));
	uint32_t thread = (uint32_t)int_at(row, 3);
	struct meaning meaning = meaning_of(load->meanings, int_at(row, 4));
	enum doing doing = (enum doing)meaning.call;
	bool launched = ids_find(&load->launching, id) != SIZE_MAX;
	bool pageable = ids_find(&load->pageable, id) != SIZE_MAX;
	bool graph = meaning.graph;
	collections_take(&capture->collections, thread, start, end);
	if (launched && doing == DOING_CALL)
		doing = DOING_LAUNCH;
	if (pageable && doing == DOING_LAUNCH)
		doing = DOING_COPY;
	if ((doing == DOING_LAUNCH || doing == DOING_CALL) && !graph && sets_up(load, start, end))
		doing = DOING_SETUP;
	if (thread)
		activity_add_named(&capture->activity, thread, start, end, doing, (uint32_t)int_at(row, 4));
	capture->graph_launches += graph;
	load->evidence->kernel_calls += meaning.kernel;
	load->evidence->bare_calls += meaning.kernel && !launched;
	if (!launched)
		return;
	size_t count = capture->breakdown.call_count;
	if (!LARGE_GROW(capture->call_items, count, load->call_room) ||
	    !LARGE_GROW(capture->calls, count, load->id_room)) {
		scan_no_memory(load->scan);
		return;
	}
	capture->calls[count] = id;
	capture->call_items[count] = (struct breakdown_call){
		.start = start, .end = end, .thread = thread, .pageable = pageable || doing == DOING_SYNC};
	capture->breakdown.call_count++;
}

/* The launch of this row's operation; NULL: not known. */
static const struct load_launch *launch_of(struct load *load, const struct scan_row *row)
{
	if (null_at(row, 3))
		return NULL;
	size_t found = ids_find(&load->correlations, int_at(row, 3));
	return found == SIZE_MAX ? NULL : &load->launches[found];
}

static void add_operation(struct load *load, const struct scan_row *row, enum device_row what,
			  const struct breakdown_operation *more)
{
	struct breakdown_capture *capture = load->capture;
	load->evidence->graphs = load->evidence->graphs || int_at(row, 4);
	if (null_at(row, 0)) {
		capture->timeless++;
		return;
	}
	if (!LARGE_GROW(capture->operations, capture->breakdown.operation_count, load->operation_room)) {
		scan_no_memory(load->scan);
		return;
	}
	const struct load_launch *launch = launch_of(load, row);
	bool missing = !launch || !launch->called, before = missing && !(launch && launch->in_step);
	capture->unlaunched += missing && !before;
	/* The call's rowid for now. link_operations() replaces it by the call's index. */
	capture->operations[capture->breakdown.operation_count++] =
		(struct breakdown_operation){.start = time_at(row, 0),
					     .end = end_of(time_at(row, 0), int_at(row, 1)),
					     .device = int_at(row, 2),
					     .row = (uint8_t)what,
					     .kind = more->kind,
					     .fill = more->fill,
					     .name = more->name,
					     .before = before,
					     .call = missing ? BREAKDOWN_NO_CALL : (size_t)launch->api};
}

static void take_device(void *context, sqlite3_stmt *row)
{
	struct load *load = context;
	if (load->device_count < LOAD_DEVICES)
		load->devices[load->device_count++] =
			(struct load_device){row_int(row, 0), row_int(row, 1), row_int(row, 2)};
}

/* What a kernel that computes might do better. */
static struct breakdown_operation kernel_kind(const struct load *load, const struct scan_row *row)
{
	struct breakdown_operation kernel = {.kind = OPERATION_PLAIN, .name = (uint32_t)int_at(row, 5)};
	const struct load_device *device = NULL;
	for (size_t i = 0; i < load->device_count; i++)
		if (load->devices[i].id == int_at(row, 2))
			device = &load->devices[i];
	if (!device)
		return kernel;
	double blocks = (double)int_at(row, 6) * (double)int_at(row, 7) * (double)int_at(row, 8);
	if (device->major >= TENSOR_CORES_MAJOR && meaning_of(load->meanings, int_at(row, 5)).slow) {
		kernel.kind = OPERATION_NO_TENSOR_CORES;
	} else if (blocks > 0 && device->multiprocessors > 0 && blocks * 2 <= (double)device->multiprocessors) {
		kernel.kind = OPERATION_FEW_BLOCKS;
		kernel.fill = (uint8_t)(blocks * 255 / (double)device->multiprocessors);
	}
	return kernel;
}

static void take_kernel(void *context, const struct scan_row *row)
{
	struct load *load = context;
	if (ids_find(&load->communication, int_at(row, 5)) != SIZE_MAX) {
		add_operation(load, row, DEVICE_COMMUNICATION,
			      &(struct breakdown_operation){.name = (uint32_t)int_at(row, 5)});
		return;
	}
	struct breakdown_operation kernel = kernel_kind(load, row);
	add_operation(load, row, DEVICE_COMPUTE, &kernel);
}

static void take_graph_launch(void *context, const struct scan_row *row)
{
	struct load *load = context;
	add_operation(load, row, DEVICE_COMPUTE, &(struct breakdown_operation){0});
}

static void take_set(void *context, const struct scan_row *row)
{
	struct load *load = context;
	add_operation(load, row, DEVICE_COPIES, &(struct breakdown_operation){0});
}

/* If the copy is from or to pageable memory, its call is kept. */
static void take_copy(void *context, const struct scan_row *row)
{
	struct load *load = context;
	const struct load_launch *launch = int_at(row, 5) == 1 || int_at(row, 6) == 1 ? launch_of(load, row) : NULL;
	if (launch && launch->called)
		ids_add(load, &load->pageable, launch->api);
	add_operation(load, row, DEVICE_COPIES, &(struct breakdown_operation){0});
}

static void communicates(sqlite3_context *context, int count, sqlite3_value **values)
{
	const char *text = count == 1 ? (const char *)sqlite3_value_text(values[0]) : NULL;
	sqlite3_result_int(context, text && names_communicates(text));
}

#define OPERATION "start, duration, device, correlation, graph"

static void read_operations(struct load *load)
{
	if (!load->scan->error)
		load->scan->error =
			sqlite3_create_function(load->scan->db, "profd_communicates", 1,
						SQLITE_UTF8 | SQLITE_DETERMINISTIC, NULL, communicates, NULL, NULL);
	/* GeForce GTX 16 have capability 7.5, but no tensor cores. */
	scan_each(
		load->scan,
		"SELECT d.id, d.multiprocessors, iif(s.text LIKE '%GTX 16%', 0, d.capability_major) FROM devices d LEFT JOIN strings s "
		"ON s.id = d.name",
		take_device, load);
	/* Their rowid is the correlation id. */
	scan_columns(load->scan, "launches", "correlation, api, step", take_launch, load);
	/* A kernel communicates if its readable name says so; records may have the mangled name. */
	scan_each(
		load->scan,
		"WITH communication AS MATERIALIZED (SELECT s.id AS id FROM strings s WHERE s.id IN (SELECT name FROM "
		"kernel_totals) AND profd_communicates(s.text)) SELECT mangled AS id FROM kernel_names WHERE name IN "
		"(SELECT id FROM communication) UNION SELECT id FROM communication ORDER BY id",
		take_communication, load);
	scan_columns(load->scan, "kernel_records", OPERATION ", name, grid_x, grid_y, grid_z", take_kernel, load);
	scan_columns(load->scan, "graph_records", OPERATION, take_graph_launch, load);
	scan_columns(load->scan, "copy_records", OPERATION ", source_kind, target_kind", take_copy, load);
	scan_columns(load->scan, "set_records", OPERATION, take_set, load);
	if (load->scan->error)
		return;
	ids_sort(&load->pageable);
	ids_sort(&load->launching);
}

/* Replaces each call's rowid by its index. */
static void link_operations(struct breakdown_capture *capture)
{
	struct ids calls = {.items = capture->calls, .count = capture->breakdown.call_count};
	for (size_t i = 0; i < capture->breakdown.operation_count; i++) {
		struct breakdown_operation *operation = &capture->operations[i];
		large_go(sizeof *operation + sizeof *capture->call_items);
		if (operation->call == BREAKDOWN_NO_CALL)
			continue;
		operation->call = ids_find(&calls, (int64_t)operation->call);
		if (operation->row == DEVICE_COPIES && operation->call != SIZE_MAX &&
		    capture->call_items[operation->call].pageable)
			operation->kind = OPERATION_PAGEABLE;
	}
}

static void take_overhead(void *context, const struct scan_row *row)
{
	struct load *load = context;
	enum doing doing = names_overhead(int_at(row, 3));
	if (doing != DOING_OUTSIDE && int_at(row, 2))
		activity_add(&load->capture->activity, (uint32_t)int_at(row, 2), time_at(row, 0),
			     end_of(time_at(row, 0), int_at(row, 1)), doing);
}

static void read_calls(struct load *load)
{
	scan_columns(load->scan, "api_calls", "rowid, start, duration, thread, name", take_call, load);
	scan_columns(load->scan, "overheads", "start, duration, thread, kind", take_overhead, load);
}

/* There may be many millions of operations: with room for all of them nothing is moved while they are added. */
static void make_room(struct load *load)
{
	static const char *const tables[] = {"kernel_records", "graph_records", "copy_records", "set_records"};
	size_t operations = 0;
	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
		operations += scan_table_rows(load->scan, tables[i]);
	load->capture->operations = large_reserve(operations, &load->operation_room, sizeof *load->capture->operations);
}

void device_load(struct scan *scan, const struct meanings *meanings, struct breakdown_capture *capture,
		 struct device_evidence *ret)
{
	*ret = (struct device_evidence){0};
	struct load load = {.scan = scan, .meanings = meanings, .capture = capture, .evidence = ret};
	make_room(&load);
	read_operations(&load);
	read_calls(&load);
	if (!scan->error)
		link_operations(capture);
	large_free(load.pageable.items);
	large_free(load.launching.items);
	large_free(load.correlations.items);
	large_free(load.communication.items);
	large_free(load.launches);
	large_free(load.busy);
	large_free(load.worked);
}
