/* breakdown_load.c - see breakdown_load.h. Reads names first: what a record means is told by its name, and there are few names. */
#include "breakdown_load.h"

#include "breakdown_names.h"
#include "breakdown_phases.h"
#include "proto/events.h"
#include "sorted.h"
#include "proto/base/array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A call that is none of the known ones sets something up where it takes this long and the device has nothing to do. */
#define SETUP_NS 1000000

/* Of more devices nobody is told whether their kernels could do better. */
#define LOAD_DEVICES 64
/* Kernels with tensor cores: devices of this capability and later. */
#define TENSOR_CORES_MAJOR 7

/* What the text of one of `strings` means. */
struct name {
	int64_t id;
	uint8_t phase, doing, call;
	bool backward, slow, graph, kernel; /* kernel: a call that launches one */
};

/* A row of `launches`. */
struct load_launch {
	int64_t api; /* rowid in api_calls */
	bool called; /* its call was recorded */
	bool in_step;
};

/* Of the devices that the file describes. */
struct load_device {
	int64_t id, multiprocessors, major;
};

struct load {
	sqlite3 *db;
	struct breakdown_capture *capture;
	const struct breakdown_watch *watch;
	struct name *names; /* by id */
	size_t name_count, name_room;
	struct phases phases;
	int64_t *pageable; /* rowids in api_calls, sorted */
	size_t pageable_count, pageable_room;
	size_t step_room, call_room, operation_room;
	int64_t *launching; /* rowids in api_calls that launched something, sorted */
	size_t launching_count, launching_room;
	int64_t *correlations; /* of `launches`, sorted */
	struct load_launch *launches;
	size_t launch_count, launch_room;
	int64_t *communication; /* ids of the names of kernels that communicate, sorted */
	size_t communication_count, communication_room;
	/* Where the last one was found. */
	size_t near_launching, near_pageable, near_launch;
	int64_t *busy;	 /* starts and ends in turn of the times at which any device worked, in order */
	int64_t *worked; /* for each of them, how long devices had worked before it */
	size_t busy_count;
	struct load_device devices[LOAD_DEVICES];
	size_t device_count;
	void (*take)(struct load *load, sqlite3_value **row); /* of scan() */
	bool graphs;					      /* there are operations of CUDA graphs */
	int64_t kernel_calls, bare_calls;		      /* that launch kernels; of which there is no kernel */
	int error;
};

/* Room for one more item of a list; false: no memory. */
static bool grow(struct load *load, void **items, size_t count, size_t *room, size_t size)
{
	if (count < *room)
		return true;
	size_t wanted = *room ? *room * 2 : 256;
	void *grown = realloc(*items, wanted * size);
	if (!grown) {
		load->error = SQLITE_NOMEM;
		return false;
	}
	*items = grown;
	*room = wanted;
	return true;
}

/* Calls `take` for each row; stops at the first error. */
static void each(struct load *load, const char *sql, void (*take)(struct load *load, sqlite3_stmt *row))
{
	sqlite3_stmt *statement = NULL;
	if (load->error)
		return;
	load->error = sqlite3_prepare_v2(load->db, sql, -1, &statement, NULL);
	while (!load->error) {
		int result = sqlite3_step(statement);
		if (result == SQLITE_ROW && load->watch && !load->watch->row(load->watch->context))
			load->error = SQLITE_CORRUPT;
		else if (result == SQLITE_ROW)
			take(load, statement);
		else if (result == SQLITE_DONE)
			break;
		else
			load->error = result;
	}
	sqlite3_finalize(statement);
}

#define LOAD "struct load"

/* profd_row(), the WHERE of scan(): is given the load and the columns, and says that the row is not one of the result. */
static void take_row(sqlite3_context *context, int count, sqlite3_value **row)
{
	struct load *load = count ? sqlite3_value_pointer(row[0], LOAD) : NULL;
	if (!load)
		return;
	if (!load->error && load->watch && !load->watch->row(load->watch->context))
		load->error = SQLITE_CORRUPT;
	if (!load->error)
		load->take(load, row + 1);
	if (load->error)
		sqlite3_result_error_code(context, load->error);
	else
		sqlite3_result_int(context, 0);
}

/* The same for tables of many rows, in two thirds of the time: SQLite calls, instead of being called for each row and each column. `sql`
 * has profd_row(?1, COLUMNS) for its WHERE. */
static void scan(struct load *load, const char *sql, void (*take)(struct load *load, sqlite3_value **row))
{
	sqlite3_stmt *statement = NULL;
	load->take = take;
	if (load->error)
		return;
	int result = sqlite3_prepare_v2(load->db, sql, -1, &statement, NULL);
	if (!result)
		result = sqlite3_bind_pointer(statement, 1, load, LOAD, NULL);
	if (!result)
		result = sqlite3_step(statement);
	if (result != SQLITE_DONE && !load->error)
		load->error = result;
	sqlite3_finalize(statement);
}

static int64_t integer(sqlite3_stmt *row, int column)
{
	return sqlite3_column_int64(row, column);
}

static int64_t int_of(sqlite3_value *value)
{
	return sqlite3_value_int64(value);
}

static bool is_null(sqlite3_value *value)
{
	return sqlite3_value_type(value) == SQLITE_NULL;
}

/* 73 years on either side of a capture. Times of a file that is not what it says are cut to that: a few of them can be added. */
#define FARTHEST (INT64_C(1) << 61)

static int64_t bounded(int64_t time)
{
	return time < -FARTHEST ? -FARTHEST : time > FARTHEST ? FARTHEST : time;
}

static int64_t time_of(sqlite3_value *value)
{
	return bounded(sqlite3_value_int64(value));
}

/* The end of what began at `start`. */
static int64_t end_of(int64_t start, int64_t duration)
{
	int64_t end;
	if (duration < 0 || __builtin_add_overflow(start, duration, &end))
		return start;
	return end > FARTHEST ? FARTHEST : end;
}

static void take_name(struct load *load, sqlite3_stmt *row)
{
	const char *text = (const char *)sqlite3_column_text(row, 1);
	if (!text || !grow(load, (void **)&load->names, load->name_count, &load->name_room, sizeof *load->names))
		return;
	load->names[load->name_count++] = (struct name){.id = integer(row, 0),
							.phase = (uint8_t)names_phase(text),
							.doing = (uint8_t)names_operator(text),
							.call = (uint8_t)names_call(text),
							.backward = names_backward(text),
							.slow = names_without_tensor_cores(text),
							.graph = strcasestr(text, "GraphLaunch") != NULL,
							.kernel = strstr(text, "LaunchKernel") != NULL};
}

static struct name name_of(const struct load *load, int64_t id)
{
	/* Most files number them without holes. */
	uint64_t place = load->name_count ? (uint64_t)id - (uint64_t)load->names[0].id : 0;
	if (place < load->name_count && load->names[place].id == id)
		return load->names[place];
	size_t low = ARRAY_BEFORE(load->name_count, middle, load->names[middle].id < id);
	if (low < load->name_count && load->names[low].id == id)
		return load->names[low];
	return (struct name){.phase = PHASE_NONE, .doing = DOING_OPERATOR, .call = DOING_CALL};
}

static void take_step(struct load *load, sqlite3_stmt *row)
{
	struct breakdown_capture *capture = load->capture;
	struct breakdown *breakdown = &capture->breakdown;
	int64_t start = bounded(integer(row, 0)), end = end_of(start, integer(row, 1)), annotated = end;
	if (breakdown->step_count && start < breakdown->steps[breakdown->step_count - 1].end)
		start = breakdown->steps[breakdown->step_count - 1].end;
	if (end <= start)
		return;
	size_t room = load->step_room;
	if (!grow(load, (void **)&capture->steps, breakdown->step_count, &load->step_room, sizeof *capture->steps))
		return;
	if (!grow(load, (void **)&capture->numbers, breakdown->step_count, &room, sizeof *capture->numbers))
		return;
	breakdown->steps = capture->steps;
	if (!breakdown->step_count)
		breakdown->step_thread = (uint32_t)integer(row, 3);
	/* A file that was imported: what follows the framework's own annotation of the step lies between two steps. */
	if (sqlite3_column_type(row, 4) != SQLITE_NULL) {
		int64_t told = end_of(start, integer(row, 4));
		annotated = told < end ? told : end;
	}
	capture->numbers[breakdown->step_count] = integer(row, 2);
	capture->steps[breakdown->step_count++] =
		(struct breakdown_step){.start = start, .end = end, .annotated = annotated};
}

static void take_operator(struct load *load, sqlite3_value **row)
{
	if (int_of(row[6]) & EVENT_FLAG_ASYNC)
		return;
	struct name name = name_of(load, int_of(row[2]));
	int64_t start = time_of(row[0]), end = end_of(start, int_of(row[1]));
	uint32_t thread = (uint32_t)int_of(row[3]);
	load->capture->host = true;
	if (name.phase != PHASE_NONE) {
		activity_mark(&load->capture->activity, thread, start, end, (enum phase)name.phase);
		return;
	}
	activity_add_named(&load->capture->activity, thread, start, end, (enum doing)name.doing,
			   (uint32_t)int_of(row[2]));
	bool backward = name.backward || int_of(row[5]) == 1;
	/* What other threads do says nothing of the step's phases, unless it is backward. */
	if (backward || thread == load->capture->breakdown.step_thread)
		phases_add(&load->phases, thread, start, end, backward, int_of(row[4]));
}

static void take_range(struct load *load, sqlite3_value **row)
{
	struct name name = name_of(load, int_of(row[2]));
	if (name.phase != PHASE_NONE && int_of(row[4]) != RANGE_SOURCE_NVTX_START_END &&
	    !(int_of(row[5]) & EVENT_FLAG_ASYNC))
		activity_mark(&load->capture->activity, (uint32_t)int_of(row[3]), time_of(row[0]),
			      end_of(time_of(row[0]), int_of(row[1])), (enum phase)name.phase);
}

static void push(struct load *load, int64_t **items, size_t *count, size_t *room, int64_t value)
{
	if (grow(load, (void **)items, *count, room, sizeof **items))
		(*items)[(*count)++] = value;
}

static void take_launch(struct load *load, sqlite3_value **row)
{
	bool called = !is_null(row[1]);
	size_t room = load->launch_room;
	if (called)
		push(load, &load->launching, &load->launching_count, &load->launching_room, int_of(row[1]));
	if (!grow(load, (void **)&load->launches, load->launch_count, &load->launch_room, sizeof *load->launches) ||
	    !grow(load, (void **)&load->correlations, load->launch_count, &room, sizeof *load->correlations))
		return;
	load->correlations[load->launch_count] = int_of(row[0]);
	load->launches[load->launch_count++] = (struct load_launch){int_of(row[1]), called, !is_null(row[2])};
}

static void take_communication(struct load *load, sqlite3_stmt *row)
{
	push(load, &load->communication, &load->communication_count, &load->communication_room, integer(row, 0));
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return x < y ? -1 : x > y;
}

static size_t find(const int64_t *items, size_t count, int64_t wanted)
{
	size_t low = ARRAY_BEFORE(count, middle, items[middle] < wanted);
	return low < count && items[low] == wanted ? low : SIZE_MAX;
}

/* As find(), for what mostly is asked for in order: looks first behind *near, where the last one was. */
static size_t find_near(const int64_t *items, size_t count, size_t *near, int64_t wanted)
{
	for (size_t i = *near; i < count && i < *near + 3; i++)
		if (items[i] == wanted) {
			*near = i;
			return i;
		}
	size_t found = find(items, count, wanted);
	*near = found == SIZE_MAX ? *near : found;
	return found;
}

/* ns of [start, end) in which any device worked. */
static int64_t worked_before(const struct load *load, int64_t time)
{
	size_t low = ARRAY_BEFORE(load->busy_count, middle, load->busy[2 * middle] < time);
	if (!low)
		return 0;
	int64_t start = load->busy[2 * (low - 1)], end = load->busy[2 * (low - 1) + 1];
	return load->worked[low - 1] + (time < end ? time : end) - start;
}

static bool sets_up(const struct load *load, int64_t start, int64_t end)
{
	return end - start >= SETUP_NS && (worked_before(load, end) - worked_before(load, start)) * 2 < end - start;
}

static void take_call(struct load *load, sqlite3_value **row)
{
	struct breakdown_capture *capture = load->capture;
	int64_t id = int_of(row[0]), start = time_of(row[1]), end = end_of(start, int_of(row[2]));
	uint32_t thread = (uint32_t)int_of(row[3]);
	struct name name = name_of(load, int_of(row[4]));
	enum doing doing = (enum doing)name.call;
	bool launched = find_near(load->launching, load->launching_count, &load->near_launching, id) != SIZE_MAX;
	bool pageable = find_near(load->pageable, load->pageable_count, &load->near_pageable, id) != SIZE_MAX;
	bool graph = name.graph;
	if (launched && doing == DOING_CALL)
		doing = DOING_LAUNCH;
	if (pageable && doing == DOING_LAUNCH)
		doing = DOING_COPY;
	if ((doing == DOING_LAUNCH || doing == DOING_CALL) && !graph && sets_up(load, start, end))
		doing = DOING_SETUP;
	if (thread)
		activity_add_named(&capture->activity, thread, start, end, doing, (uint32_t)int_of(row[4]));
	capture->graph_launches += graph;
	load->kernel_calls += name.kernel;
	load->bare_calls += name.kernel && !launched;
	if (!launched)
		return;
	size_t count = capture->breakdown.call_count, room = load->call_room;
	if (!grow(load, (void **)&capture->call_items, count, &load->call_room, sizeof *capture->call_items) ||
	    !grow(load, (void **)&capture->calls, count, &room, sizeof *capture->calls))
		return;
	capture->calls[count] = id;
	capture->call_items[count] = (struct breakdown_call){
		.start = start, .end = end, .thread = thread, .pageable = pageable || doing == DOING_SYNC};
	capture->breakdown.call_count++;
}

/* What launched the operation of this row; NULL: nobody knows. */
static const struct load_launch *launch_of(struct load *load, sqlite3_value **row)
{
	if (sqlite3_value_type(row[3]) != SQLITE_INTEGER)
		return NULL;
	size_t found = find_near(load->correlations, load->launch_count, &load->near_launch, int_of(row[3]));
	return found == SIZE_MAX ? NULL : &load->launches[found];
}

static void add_operation(struct load *load, sqlite3_value **row, enum device_row what,
			  const struct breakdown_operation *more)
{
	struct breakdown_capture *capture = load->capture;
	load->graphs = load->graphs || int_of(row[4]);
	if (is_null(row[0])) {
		capture->timeless++;
		return;
	}
	if (!grow(load, (void **)&capture->operations, capture->breakdown.operation_count, &load->operation_room,
		  sizeof *capture->operations))
		return;
	const struct load_launch *launch = launch_of(load, row);
	bool missing = !launch || !launch->called, before = missing && !(launch && launch->in_step);
	capture->unlaunched += missing && !before;
	/* The call's rowid for now; breakdown wants its index, which link_operations() puts in its place. */
	capture->operations[capture->breakdown.operation_count++] =
		(struct breakdown_operation){.start = time_of(row[0]),
					     .end = end_of(time_of(row[0]), int_of(row[1])),
					     .device = int_of(row[2]),
					     .row = (uint8_t)what,
					     .kind = more->kind,
					     .fill = more->fill,
					     .name = more->name,
					     .before = before,
					     .call = missing ? BREAKDOWN_NO_CALL : (size_t)launch->api};
}

static void take_device(struct load *load, sqlite3_stmt *row)
{
	if (load->device_count < LOAD_DEVICES)
		load->devices[load->device_count++] =
			(struct load_device){integer(row, 0), integer(row, 1), integer(row, 2)};
}

/* What a kernel that computes might do better. */
static struct breakdown_operation kernel_kind(const struct load *load, sqlite3_value **row)
{
	struct breakdown_operation kernel = {.kind = OPERATION_PLAIN, .name = (uint32_t)int_of(row[5])};
	const struct load_device *device = NULL;
	for (size_t i = 0; i < load->device_count; i++)
		if (load->devices[i].id == int_of(row[2]))
			device = &load->devices[i];
	if (!device)
		return kernel;
	double blocks = (double)int_of(row[6]) * (double)int_of(row[7]) * (double)int_of(row[8]);
	if (device->major >= TENSOR_CORES_MAJOR && name_of(load, int_of(row[5])).slow) {
		kernel.kind = OPERATION_NO_TENSOR_CORES;
	} else if (blocks > 0 && device->multiprocessors > 0 && blocks * 2 <= (double)device->multiprocessors) {
		kernel.kind = OPERATION_FEW_BLOCKS;
		kernel.fill = (uint8_t)(blocks * 255 / (double)device->multiprocessors);
	}
	return kernel;
}

static void take_kernel(struct load *load, sqlite3_value **row)
{
	if (find(load->communication, load->communication_count, int_of(row[5])) != SIZE_MAX) {
		add_operation(load, row, DEVICE_COMMUNICATION,
			      &(struct breakdown_operation){.name = (uint32_t)int_of(row[5])});
		return;
	}
	struct breakdown_operation kernel = kernel_kind(load, row);
	add_operation(load, row, DEVICE_COMPUTE, &kernel);
}

static void take_graph_launch(struct load *load, sqlite3_value **row)
{
	add_operation(load, row, DEVICE_COMPUTE, &(struct breakdown_operation){0});
}

static void take_set(struct load *load, sqlite3_value **row)
{
	add_operation(load, row, DEVICE_COPIES, &(struct breakdown_operation){0});
}

/* A copy from or to pageable memory; its call is told apart. */
static void take_copy(struct load *load, sqlite3_value **row)
{
	const struct load_launch *launch = int_of(row[5]) == 1 || int_of(row[6]) == 1 ? launch_of(load, row) : NULL;
	if (launch && launch->called)
		push(load, &load->pageable, &load->pageable_count, &load->pageable_room, launch->api);
	add_operation(load, row, DEVICE_COPIES, &(struct breakdown_operation){0});
}

static void communicates(sqlite3_context *context, int count, sqlite3_value **values)
{
	const char *text = count == 1 ? (const char *)sqlite3_value_text(values[0]) : NULL;
	sqlite3_result_int(context, text && names_communicates(text));
}

#define OPERATIONS(table, more)                                                                                        \
	"SELECT 1 FROM " table " WHERE profd_row(?1, start, duration, device, correlation, graph" more ")"

static void read_operations(struct load *load)
{
	if (!load->error)
		load->error =
			sqlite3_create_function(load->db, "profd_communicates", 1, SQLITE_UTF8 | SQLITE_DETERMINISTIC,
						NULL, communicates, NULL, NULL);
	each(load, "SELECT id, multiprocessors, capability_major FROM devices", take_device);
	scan(load, "SELECT 1 FROM launches WHERE profd_row(?1, correlation, api, step) ORDER BY correlation",
	     take_launch);
	/* A kernel's name is that of its text. */
	each(load,
	     "WITH communication AS MATERIALIZED (SELECT s.id AS id FROM strings s WHERE s.id IN (SELECT name FROM "
	     "kernel_totals) AND profd_communicates(s.text)) SELECT mangled AS id FROM kernel_names WHERE name IN "
	     "(SELECT id FROM communication) UNION SELECT id FROM communication ORDER BY id",
	     take_communication);
	scan(load, OPERATIONS("kernel_records", ", name, grid_x, grid_y, grid_z"), take_kernel);
	scan(load, OPERATIONS("graph_records", ""), take_graph_launch);
	scan(load, OPERATIONS("copy_records", ", source_kind, target_kind"), take_copy);
	scan(load, OPERATIONS("set_records", ""), take_set);
	if (load->error)
		return;
	sort_if_needed(load->pageable, load->pageable_count, sizeof *load->pageable, by_value);
	sort_if_needed(load->launching, load->launching_count, sizeof *load->launching, by_value);
}

static int by_start(const void *a, const void *b)
{
	const struct breakdown_operation *x = a, *y = b;
	return x->start < y->start ? -1 : x->start > y->start;
}

/* When any device worked. */
static void make_busy(struct load *load)
{
	struct breakdown_operation *items = load->capture->operations;
	size_t count = load->capture->breakdown.operation_count;
	/* Not cleared: what is read was written before. */
	load->busy = malloc((2 * count + 2) * sizeof *load->busy);
	load->worked = malloc((count + 1) * sizeof *load->worked);
	if (!load->busy || !load->worked) {
		load->error = SQLITE_NOMEM;
		return;
	}
	if (count)
		sort_if_needed(items, count, sizeof *items, by_start);
	for (size_t i = 0; i < count; i++) {
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

/* From a call's rowid to its index. */
static void link_operations(struct breakdown_capture *capture)
{
	size_t near = 0;
	for (size_t i = 0; i < capture->breakdown.operation_count; i++) {
		struct breakdown_operation *operation = &capture->operations[i];
		if (operation->call == BREAKDOWN_NO_CALL)
			continue;
		operation->call =
			find_near(capture->calls, capture->breakdown.call_count, &near, (int64_t)operation->call);
		if (operation->row == DEVICE_COPIES && operation->call != SIZE_MAX &&
		    capture->call_items[operation->call].pageable)
			operation->kind = OPERATION_PAGEABLE;
	}
}

static void take_overhead(struct load *load, sqlite3_value **row)
{
	enum doing doing = names_overhead(int_of(row[3]));
	if (doing != DOING_OUTSIDE && int_of(row[2]))
		activity_add(&load->capture->activity, (uint32_t)int_of(row[2]), time_of(row[0]),
			     end_of(time_of(row[0]), int_of(row[1])), doing);
}

static void read_host(struct load *load)
{
	scan(load, "SELECT 1 FROM operators WHERE profd_row(?1, start, duration, name, thread, sequence, scope, flags)",
	     take_operator);
	scan(load, "SELECT 1 FROM ranges WHERE profd_row(?1, start, duration, name, thread, source, flags)",
	     take_range);
	struct breakdown *breakdown = &load->capture->breakdown;
	if (!load->error && !phases_mark(&load->phases, breakdown, &load->capture->activity))
		load->error = SQLITE_NOMEM;
}

static void read_calls(struct load *load)
{
	scan(load, "SELECT 1 FROM api_calls WHERE profd_row(?1, rowid, start, duration, thread, name) ORDER BY rowid",
	     take_call);
	scan(load, "SELECT 1 FROM overheads WHERE profd_row(?1, start, duration, thread, kind)", take_overhead);
}

static bool ran(struct load *load, const char *collector)
{
	sqlite3_stmt *statement = NULL;
	if (load->error)
		return false;
	load->error =
		sqlite3_prepare_v2(load->db, "SELECT ran FROM collectors WHERE collector = ?1", -1, &statement, NULL);
	if (load->error)
		return false;
	sqlite3_bind_text(statement, 1, collector, -1, SQLITE_STATIC);
	bool yes = sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_int(statement, 0) != 0;
	sqlite3_finalize(statement);
	return yes;
}

/* --- do the records suffice to say why a device was idle? --- */

static void doubt(struct load *load, const char *what, int64_t count)
{
	if (!load->capture->doubt[0])
		snprintf(load->capture->doubt, sizeof load->capture->doubt, "%lld %s", (long long)count, what);
}

static void take_loss(struct load *load, sqlite3_stmt *row)
{
	if (integer(row, 0) > 0)
		doubt(load, "events of the devices, or calls, were dropped", integer(row, 0));
}

/* A graph's launches have as many operations as it has nodes, each time. Of one from before the recording only the end is there, and of
 * the last one perhaps only the beginning. */
static void take_graphs(struct load *load, sqlite3_stmt *row)
{
	if (integer(row, 0) > 0)
		doubt(load, "CUDA graphs have launches with fewer operations than others of the same graph",
		      integer(row, 0));
}

/* By name: files of an older schema lack some of the columns. */
static void take_session(struct load *load, sqlite3_stmt *row)
{
	for (int i = 0; i < sqlite3_column_count(row); i++) {
		const char *name = sqlite3_column_name(row, i);
		if (sqlite3_column_type(row, i) == SQLITE_NULL)
			continue;
		if (strcmp(name, "missing_from") == 0)
			doubt(load, "us from the beginning on records of the devices are missing",
			      integer(row, i) / 1000);
	}
}

static void take_known(struct load *load, sqlite3_stmt *row)
{
	for (int i = 0; i < sqlite3_column_count(row); i++)
		if (strcmp(sqlite3_column_name(row, i), "known_from") == 0 && integer(row, i) > 0)
			load->capture->breakdown.known_from = bounded(integer(row, i));
}

static void look_for_doubt(struct load *load)
{
	if (load->capture->timeless)
		doubt(load, "operations came without times", (int64_t)load->capture->timeless);
	/* Of the last ones a device may not have begun before the recording ended. */
	if (load->bare_calls * 2 > load->kernel_calls)
		doubt(load, "calls launched kernels that were not recorded", load->bare_calls);
	each(load,
	     "SELECT sum(count) FROM losses WHERE is_loss AND kind IN ('kernel', 'copy', 'set', 'graph_launch', "
	     "'api_call')",
	     take_loss);
	each(load, "SELECT * FROM sessions", take_session);
	if (!load->graphs)
		return;
	each(load,
	     "SELECT count(*) FROM (SELECT 1 FROM (SELECT graph, correlation, count(*) AS operations FROM (SELECT graph, "
	     "correlation FROM kernel_records WHERE graph <> 0 UNION ALL SELECT graph, correlation FROM copy_records WHERE "
	     "graph <> 0 UNION ALL SELECT graph, correlation FROM set_records WHERE graph <> 0) GROUP BY graph, correlation) g "
	     "JOIN launches l ON l.correlation = g.correlation WHERE l.api IS NOT NULL AND g.correlation IS NOT (SELECT "
	     "correlation FROM (SELECT correlation, max(start) FROM kernel_records WHERE graph <> 0)) GROUP BY graph HAVING "
	     "min(g.operations) < max(g.operations))",
	     take_graphs);
}

/* Idle time stays what it is; its causes are not known. */
static void withdraw_causes(struct breakdown *breakdown)
{
	for (size_t d = 0; d < breakdown->device_count; d++) {
		for (size_t i = 0; i < breakdown->step_count; i++) {
			struct breakdown_device_step *step = &breakdown->devices[d].steps[i];
			memset(step->idle, 0, sizeof step->idle);
			step->idle[IDLE_UNKNOWN] = step->rows[DEVICE_IDLE];
			step->after_sync = 0;
		}
		struct breakdown_device *device = &breakdown->devices[d];
		for (size_t i = 0; i < device->stretch_count; i++)
			if (device->stretches[i].row == DEVICE_IDLE)
				device->stretches[i].cause = IDLE_UNKNOWN;
		for (size_t i = 0; i < device->idle_count; i++)
			device->idles[i].after_sync = false;
	}
}

static void read_steps(struct load *load)
{
	each(load,
	     "WITH annotated AS MATERIALIZED (SELECT start, max(duration) AS duration FROM ranges WHERE name IN "
	     "(SELECT id FROM strings "
	     "WHERE text GLOB 'ProfilerStep#*') GROUP BY start) SELECT s.start, s.duration, s.number, s.thread, "
	     "a.duration FROM steps s "
	     "LEFT JOIN annotated a ON a.start = s.start ORDER BY s.start",
	     take_step);
	load->capture->breakdown.has_operators = ran(load, "torch");
	load->capture->device = ran(load, "cupti");
}

bool breakdown_capture_load(sqlite3 *db, const struct breakdown_watch *watch, struct breakdown_capture *ret,
			    int *ret_error)
{
	struct load load = {.db = db, .capture = ret, .watch = watch};
	*ret = (struct breakdown_capture){0};
	load.error = sqlite3_create_function(db, "profd_row", -1, SQLITE_UTF8 | SQLITE_DIRECTONLY, NULL, take_row, NULL,
					     NULL);
	each(&load, "SELECT id, text FROM strings ORDER BY id", take_name);
	read_steps(&load);
	/* Files of the oldest schema have no tables for the rest. */
	if (ret->device) {
		each(&load, "SELECT * FROM sessions", take_known);
		read_operations(&load);
		if (!load.error)
			make_busy(&load);
		read_calls(&load);
	}
	read_host(&load);
	if (!load.error) {
		ret->breakdown.activity = &ret->activity;
		ret->breakdown.steps = ret->steps;
		ret->breakdown.calls = ret->call_items;
		ret->breakdown.operations = ret->operations;
		ret->breakdown.listener = watch ? watch->listener : NULL;
		link_operations(ret);
		if (!activity_build(&ret->activity) || !breakdown_make(&ret->breakdown))
			load.error = SQLITE_NOMEM;
	}
	if (ret->device)
		look_for_doubt(&load);
	if (!load.error && ret->doubt[0])
		withdraw_causes(&ret->breakdown);
	phases_free(&load.phases);
	free(load.names);
	free(load.pageable);
	free(load.launching);
	free(load.correlations);
	free(load.launches);
	free(load.communication);
	free(load.busy);
	free(load.worked);
	*ret_error = load.error;
	return !load.error;
}

static void take_host(struct load *load, sqlite3_stmt *row)
{
	(void)row;
	load->capture->host = true;
}
_Static_assert(EVENT_FLAG_ASYNC == 2, "as in the query of breakdown_capture_steps");

bool breakdown_capture_steps(sqlite3 *db, const struct breakdown_watch *watch, struct breakdown_capture *ret,
			     int *ret_error)
{
	struct load load = {.db = db, .capture = ret, .watch = watch};
	*ret = (struct breakdown_capture){0};
	read_steps(&load);
	/* As take_operator() has it: what other threads closed says nothing. */
	each(&load, "SELECT 1 FROM operators WHERE flags & 2 = 0 LIMIT 1", take_host);
	ret->breakdown.steps = ret->steps;
	*ret_error = load.error;
	return !load.error;
}

void breakdown_capture_free(struct breakdown_capture *capture)
{
	breakdown_free(&capture->breakdown);
	activity_free(&capture->activity);
	free(capture->steps);
	free(capture->numbers);
	free(capture->calls);
	free(capture->call_items);
	free(capture->operations);
	*capture = (struct breakdown_capture){0};
}
