/* load.c - see load.h. Names are read first: a name tells what a record means, and there are few names. */
#include "load.h"

#include "compilations.h"
#include "doubt.h"
#include "load_device.h"
#include "phases.h"
#include "purpose.h"
#include "proto/base/array.h"
#include "proto/base/large.h"
#include "proto/events.h"

#include <stdlib.h>
#include <string.h>

struct load {
	struct scan scan;
	struct meanings meanings;
	struct breakdown_capture *capture;
	struct phases phases;
	struct purposes purposes;
	struct compilations *compilations;
	size_t step_room, collections_at;
	bool operator_stacks, samples;
};

static void take_step(void *context, sqlite3_stmt *row)
{
	struct load *load = context;
	struct breakdown_capture *capture = load->capture;
	struct breakdown *breakdown = &capture->breakdown;
	int64_t start = bounded(row_int(row, 0)), end = end_of(start, row_int(row, 1)), annotated = end;
	if (breakdown->step_count && start < breakdown->steps[breakdown->step_count - 1].end)
		start = breakdown->steps[breakdown->step_count - 1].end;
	if (end <= start)
		return;
	size_t room = load->step_room;
	if (!ARRAY_GROW(capture->steps, breakdown->step_count, load->step_room) ||
	    !ARRAY_GROW(capture->numbers, breakdown->step_count, room)) {
		scan_no_memory(&load->scan);
		return;
	}
	breakdown->steps = capture->steps;
	if (!breakdown->step_count) {
		breakdown->step_thread = (uint32_t)row_int(row, 3);
		capture->window = row_int(row, 5) == STEP_SOURCE_DURATION;
	}
	/* An imported file: time after the framework's own annotation of the step lies between two steps. */
	if (sqlite3_column_type(row, 4) != SQLITE_NULL) {
		int64_t told = end_of(start, row_int(row, 4));
		annotated = told < end ? told : end;
	}
	capture->numbers[breakdown->step_count] = row_int(row, 2);
	capture->steps[breakdown->step_count++] =
		(struct breakdown_step){.start = start, .end = end, .annotated = annotated, .collections = -1};
}

/* Files that were written before collections were counted lack the columns. */
static void take_collections(void *context, sqlite3_stmt *row)
{
	struct load *load = context;
	struct breakdown_capture *capture = load->capture;
	int64_t number = 0, known = 0, full = 0;
	for (int i = 0; i < sqlite3_column_count(row); i++) {
		const char *name = sqlite3_column_name(row, i);
		if (strcmp(name, "number") == 0)
			number = row_int(row, i);
		else if (strcmp(name, "collections_known") == 0)
			known = row_int(row, i);
		else if (strcmp(name, "collections_2") == 0)
			full = row_int(row, i);
	}
	/* Not every row became a step. */
	while (load->collections_at < capture->breakdown.step_count && capture->numbers[load->collections_at] < number)
		load->collections_at++;
	if (load->collections_at < capture->breakdown.step_count && capture->numbers[load->collections_at] == number &&
	    known == 1 && full >= 0)
		capture->steps[load->collections_at].collections = full;
}

static void mark(struct load *load, const struct meaning *name, uint32_t thread, int64_t start, int64_t end, int64_t id)
{
	struct activity *activity = &load->capture->activity;
	if (name->module)
		activity_mark_module(activity, thread, start, end);
	else
		activity_mark_named(activity, thread, start, end, (enum phase)name->phase, (uint32_t)id);
}

/* A process has no more such threads than devices. A hostile file may have more: the rest is left out. */
static void take_follower(struct breakdown_capture *capture, uint32_t thread)
{
	if (thread != capture->breakdown.step_thread && capture->follower_count < BREAKDOWN_FOLLOWERS &&
	    !breakdown_follows(capture, thread))
		capture->followers[capture->follower_count++] = thread;
}

/* Columns of operators. The stack, if there is one, comes last. */
enum { O_SEQUENCE, O_START, O_DURATION, O_NAME, O_THREAD, O_SCOPE, O_FLAGS, O_STACK };

static enum purpose stack_purpose(const struct load *load, const struct scan_row *row)
{
	return load->operator_stacks ? purposes_of(&load->purposes, int_at(row, O_STACK)) : PURPOSE_NONE;
}

static void take_operator(void *context, const struct scan_row *row)
{
	struct load *load = context;
	if (int_at(row, O_FLAGS) & EVENT_FLAG_ASYNC)
		return;
	int64_t id = int_at(row, O_NAME);
	struct meaning name = meaning_of(&load->meanings, id);
	int64_t start = time_at(row, O_START), end = end_of(start, int_at(row, O_DURATION));
	uint32_t thread = (uint32_t)int_at(row, O_THREAD);
	bool on_step_thread = thread == load->capture->breakdown.step_thread;
	load->capture->host = true;
	collections_take(&load->capture->collections, thread, start, end);
	if (on_step_thread)
		compilations_take(load->compilations, start, end, &name);
	if (name.phase != PHASE_NONE) {
		mark(load, &name, thread, start, end, id);
		return;
	}
	activity_add_named(&load->capture->activity, thread, start, end, (enum doing)name.doing, (uint32_t)id);
	bool backward = name.backward || int_at(row, O_SCOPE) == 1;
	if (backward)
		take_follower(load->capture, thread);
	/* Operators of other threads say nothing of the step's phases, unless they are backward. */
	if (backward || on_step_thread)
		phases_add(&load->phases,
			   &(struct phases_operator){.start = start,
						     .end = end,
						     .sequence = phases_sequence(int_at(row, O_SEQUENCE)),
						     .on_step_thread = on_step_thread,
						     .backward = backward,
						     .takes_tensor = name.takes_tensor,
						     .purpose = stack_purpose(load, row) & 7,
						     .network = name.network});
}

static void take_range(void *context, const struct scan_row *row)
{
	struct load *load = context;
	struct meaning name = meaning_of(&load->meanings, int_at(row, 2));
	bool on_thread = int_at(row, 4) != RANGE_SOURCE_NVTX_START_END && !(int_at(row, 5) & EVENT_FLAG_ASYNC);
	if (on_thread)
		collections_take(&load->capture->collections, (uint32_t)int_at(row, 3), time_at(row, 0),
				 end_of(time_at(row, 0), int_at(row, 1)));
	/* torch marks a compilation in this way in traces of torch.profiler. */
	if (name.doing == DOING_TORCH_COMPILE)
		activity_add_named(&load->capture->activity, (uint32_t)int_at(row, 3), time_at(row, 0),
				   end_of(time_at(row, 0), int_at(row, 1)), DOING_TORCH_COMPILE,
				   (uint32_t)int_at(row, 2));
	if (name.phase != PHASE_NONE && on_thread)
		mark(load, &name, (uint32_t)int_at(row, 3), time_at(row, 0), end_of(time_at(row, 0), int_at(row, 1)),
		     int_at(row, 2));
}

/* The agent tells each operator's sequence number; an imported file may lack them. */
static void take_agent(void *context, sqlite3_stmt *row)
{
	struct load *load = context;
	(void)row;
	load->phases.numbered = true;
}

static void read_host(struct load *load)
{
	scan_each(&load->scan, "SELECT 1 FROM meta WHERE key = 'agent_version' AND value <> ''", take_agent, load);
	/* Files of the oldest schemas have no stacks. */
	scan_columns(&load->scan, "operators",
		     load->operator_stacks ? "sequence, start, duration, name, thread, scope, flags, stack"
					   : "sequence, start, duration, name, thread, scope, flags",
		     take_operator, load);
	scan_columns(&load->scan, "ranges", "start, duration, name, thread, source, flags", take_range, load);
	struct breakdown *breakdown = &load->capture->breakdown;
	collections_mark(&load->capture->collections, &load->capture->activity);
	if (!load->scan.error)
		compilations_mark(load->compilations, breakdown, &load->phases, &load->capture->activity);
	if (!load->scan.error && !phases_mark(&load->phases, breakdown, &load->capture->activity))
		scan_no_memory(&load->scan);
	if (load->samples && load->phases.inferred)
		purpose_look_at_samples(&load->purposes, &load->scan, breakdown->step_thread, &load->capture->activity,
					load->phases.inferred - 1);
}

static bool ran(struct load *load, const char *collector)
{
	sqlite3_stmt *statement = NULL;
	if (load->scan.error)
		return false;
	load->scan.error = sqlite3_prepare_v2(load->scan.db, "SELECT ran FROM collectors WHERE collector = ?1", -1,
					      &statement, NULL);
	if (load->scan.error)
		return false;
	sqlite3_bind_text(statement, 1, collector, -1, SQLITE_STATIC);
	bool yes = sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_int(statement, 0) != 0;
	sqlite3_finalize(statement);
	return yes;
}

static void take_known(void *context, sqlite3_stmt *row)
{
	struct load *load = context;
	for (int i = 0; i < sqlite3_column_count(row); i++)
		if (strcmp(sqlite3_column_name(row, i), "known_from") == 0 && row_int(row, i) > 0)
			load->capture->breakdown.known_from = bounded(row_int(row, i));
}

static void take_thread(void *context, sqlite3_stmt *row)
{
	struct load *load = context;
	load->capture->breakdown.step_thread = (uint32_t)row_int(row, 0);
}

/* A window of time has no thread that steps: the agent's own thread marked it. Instead the thread is taken that
 * called most of the first hundred thousand operators itself; nodes of autograd do not count. Without operators it is
 * the process's first thread. An imported file does not tell which that is: there it is the thread with most ranges. */
static void choose_thread(struct load *load)
{
	scan_each(
		&load->scan,
		"SELECT thread FROM (SELECT * FROM ranges LIMIT 100000) WHERE flags & 2 = 0 AND NOT EXISTS (SELECT 1 FROM meta "
		"WHERE key = 'agent_version' AND value <> '') GROUP BY thread ORDER BY count(*) DESC, thread LIMIT 1",
		take_thread, load);
	scan_each(
		&load->scan,
		"SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'agent_pid' AND EXISTS (SELECT 1 FROM meta WHERE "
		"key = 'agent_version' AND value <> '')",
		take_thread, load);
	scan_each(
		&load->scan,
		"SELECT thread FROM (SELECT * FROM operators LIMIT 100000) WHERE (parent IS NULL OR parent IN (SELECT id FROM "
		"ranges)) AND flags & 2 = 0 AND name NOT IN (SELECT id FROM strings WHERE text GLOB "
		"'autograd::engine::evaluate_function: *') GROUP BY thread ORDER BY count(*) DESC, thread LIMIT 1",
		take_thread, load);
}

static void read_steps(struct load *load)
{
	scan_each(&load->scan,
		  "WITH annotated AS MATERIALIZED (SELECT start, max(duration) AS duration FROM ranges WHERE name IN "
		  "(SELECT id FROM strings "
		  "WHERE text GLOB 'ProfilerStep#*') GROUP BY start) SELECT s.start, s.duration, s.number, s.thread, "
		  "a.duration, s.source FROM steps s "
		  "LEFT JOIN annotated a ON a.start = s.start ORDER BY s.start",
		  take_step, load);
	scan_each(&load->scan, "SELECT * FROM steps ORDER BY start", take_collections, load);
	if (load->capture->window)
		choose_thread(load);
	load->capture->breakdown.has_operators = ran(load, "torch");
	load->capture->device = ran(load, "cupti");
	load->operator_stacks = ran(load, "operator_stacks");
	load->samples = ran(load, "python");
}

/* There may be many millions of spans: with room for all of them nothing is moved while they are added. */
static void make_room(struct load *load)
{
	struct activity *activity = &load->capture->activity;
	size_t operators = scan_table_rows(&load->scan, "operators");
	load->phases.items = large_reserve(operators, &load->phases.room, sizeof *load->phases.items);
	activity->expected_thread = load->capture->breakdown.step_thread;
	activity->expected_spans = operators + (load->capture->device ? scan_table_rows(&load->scan, "api_calls") : 0);
}

bool breakdown_capture_load(sqlite3 *db, const struct breakdown_watch *watch, struct breakdown_capture *ret,
			    int *ret_error)
{
	struct load load = {.capture = ret};
	struct device_evidence evidence = {0};
	*ret = (struct breakdown_capture){0};
	scan_begin(&load.scan, db, watch);
	meanings_read(&load.meanings, &load.scan);
	read_steps(&load);
	make_room(&load);
	collections_read(&ret->collections, &load.scan);
	/* Files of the oldest schema have no tables for the rest. */
	if (ret->device) {
		scan_each(&load.scan, "SELECT * FROM sessions", take_known, &load);
		device_load(&load.scan, &load.meanings, ret, &evidence);
	}
	load.compilations = calloc(1, sizeof *load.compilations);
	if (!load.compilations)
		scan_no_memory(&load.scan);
	/* Files of earlier releases lack the table. */
	else if (ran(&load, "compile"))
		compilations_read(load.compilations, &load.scan);
	if (load.operator_stacks || load.samples)
		purposes_read(&load.purposes, &load.scan);
	read_host(&load);
	if (!load.scan.error) {
		ret->breakdown.activity = &ret->activity;
		ret->breakdown.steps = ret->steps;
		ret->breakdown.calls = ret->call_items;
		ret->breakdown.operations = ret->operations;
		ret->breakdown.listener = watch ? watch->listener : NULL;
		if (!activity_build(&ret->activity) || !breakdown_make(&ret->breakdown))
			scan_no_memory(&load.scan);
	}
	if (ret->device && !load.scan.error)
		breakdown_doubt(&load.scan, ret, &evidence);
	scan_end(&load.scan);
	phases_free(&load.phases);
	purposes_free(&load.purposes);
	meanings_free(&load.meanings);
	ret->compilations = load.compilations;
	*ret_error = load.scan.error;
	return !load.scan.error;
}

static void take_host(void *context, sqlite3_stmt *row)
{
	struct load *load = context;
	(void)row;
	load->capture->host = true;
}
_Static_assert(EVENT_FLAG_ASYNC == 2, "as in the query of breakdown_capture_steps");

bool breakdown_capture_steps(sqlite3 *db, const struct breakdown_watch *watch, struct breakdown_capture *ret,
			     int *ret_error)
{
	struct load load = {.scan = {.db = db, .watch = watch}, .capture = ret};
	*ret = (struct breakdown_capture){0};
	read_steps(&load);
	/* As in take_operator(): an operator that another thread closed says nothing. */
	scan_each(&load.scan, "SELECT 1 FROM operators WHERE flags & 2 = 0 LIMIT 1", take_host, &load);
	ret->breakdown.steps = ret->steps;
	*ret_error = load.scan.error;
	return !load.scan.error;
}

bool breakdown_follows(const struct breakdown_capture *capture, uint32_t thread)
{
	for (size_t i = 0; i < capture->follower_count; i++)
		if (capture->followers[i] == thread)
			return true;
	return false;
}

enum phase breakdown_phase(const struct breakdown_capture *capture, struct breakdown_asked *asked, uint32_t thread,
			   int64_t time)
{
	if (!asked->thread || asked->number != thread)
		*asked = (struct breakdown_asked){
			.number = thread,
			.thread = activity_find(&capture->activity, breakdown_follows(capture, thread)
									    ? capture->breakdown.step_thread
									    : thread)};
	const struct activity_thread *known = asked->thread;
	size_t at = known ? activity_near(known, time, &asked->near) : 0;
	return known && at < known->count && activity_start(known, at) <= time
		       ? (enum phase)activity_segment(known, at).phase
		       : PHASE_NONE;
}

unsigned breakdown_phases(const struct breakdown_capture *capture)
{
	unsigned phases = 0;
	for (size_t i = 0; i < capture->activity.count; i++)
		for (size_t at = 0; at < capture->activity.threads[i].count; at++)
			phases |= 1u << activity_segment(&capture->activity.threads[i], at).phase;
	return phases;
}

void breakdown_capture_free(struct breakdown_capture *capture)
{
	breakdown_free(&capture->breakdown);
	activity_free(&capture->activity);
	free(capture->compilations);
	collections_free(&capture->collections);
	free(capture->steps);
	free(capture->numbers);
	large_free(capture->calls);
	large_free(capture->call_items);
	large_free(capture->operations);
	*capture = (struct breakdown_capture){0};
}
