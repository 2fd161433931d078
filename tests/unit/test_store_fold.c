/* test_store_fold.c - operators that torch counts as one call with their parent: the totals gathered in memory, those that
 * SQL makes of the rows, and a reference that follows torch's own words give the same. Also the merging of threads. */
#include "store/derive.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define EVENTS_MAX 600
#define STEP_NS 500

struct log {
	union event_any events[EVENTS_MAX];
	size_t count;
	uint64_t id, time;
};

struct row {
	int64_t name, step, calls, self, total, min, max;
};

static union event_any *put(struct log *log, unsigned kind, uint64_t id, uint64_t parent, uint32_t name, uint16_t depth,
			    uint64_t start)
{
	assert_true(log->count < EVENTS_MAX);
	union event_any *event = &log->events[log->count++];
	memset(event, 0, sizeof *event);
	log->time += 7;
	event->head.kind = (uint8_t)kind;
	event->head.step = (uint32_t)(1 + start / STEP_NS);
	if (kind == EVENT_OPERATOR) {
		event->head.size = sizeof event->operator;
		event->operator.start = start;
		event->operator.duration = log->time - start;
		event->operator.self = event->operator.duration / 3;
		event->operator.id = id;
		event->operator.parent = parent;
		event->operator.name = name;
		event->operator.depth = depth;
		event->operator.thread = 5;
	} else {
		event->head.size = sizeof event->range;
		event->range.start = start;
		event->range.duration = log->time - start;
		event->range.self = event->range.duration / 3;
		event->range.id = id;
		event->range.parent = parent;
		event->range.name = name;
		event->range.depth = depth;
		event->range.thread = 5;
		event->range.source = RANGE_SOURCE_TORCH_USER;
	}
	return event;
}

/* A random tree of few names, written in the order of its ends. */
static void grow_tree(struct log *log, uint64_t parent, uint32_t name, uint16_t depth)
{
	uint64_t id = ++log->id, start = log->time += 3;
	int kind = rand() % 12 ? EVENT_OPERATOR : EVENT_RANGE;
	int children = depth > 7 ? 0 : rand() % 8 < 5 ? 1 : rand() % 4;
	for (int i = 0; i < children && log->count < EVENTS_MAX - 100; i++)
		grow_tree(log, id, rand() % 3 ? name : (uint32_t)(rand() % 4), (uint16_t)(depth + 1));
	union event_any *event = put(log, (unsigned)kind, id, parent, name, depth, start);
	if (rand() % 40 == 0)
		event->head.flags = EVENT_FLAG_ASYNC;
	/* Lost: its children have a parent that never comes. */
	if (rand() % 30 == 0)
		log->count--;
}

struct node {
	bool operator, async, gone;
	uint32_t name, step;
	uint64_t id, parent, duration, self;
};

static struct node node_of(const union event_any *event)
{
	if (event->head.kind == EVENT_OPERATOR) {
		const struct event_operator *o = &event->operator;
		return (struct node){true,	   o->head.flags & EVENT_FLAG_ASYNC,
				     false,	   o->name,
				     o->head.step, o->id,
				     o->parent,	   o->duration,
				     o->self};
	}
	const struct event_range *r = &event->range;
	return (struct node){
		false,	r->head.flags & EVENT_FLAG_ASYNC, false, r->name, r->head.step, r->id, r->parent, r->duration,
		r->self};
}

static int compare_rows(const void *a, const void *b)
{
	return memcmp(a, b, offsetof(struct row, calls));
}

/* EventList._remove_dup_nodes: until nothing changes, a node with its parent's name that is its only child goes, and its
 * children are its parent's. */
static size_t reference(const struct log *log, struct row *rows)
{
	size_t n = log->count, count = 0;
	struct node *nodes = calloc(n, sizeof *nodes);
	size_t *by_id = calloc(log->id + 1, sizeof *by_id);
	for (size_t i = 0; i < n; i++) {
		nodes[i] = node_of(&log->events[i]);
		by_id[nodes[i].id] = i + 1;
	}
	for (bool again = true; again;) {
		again = false;
		for (size_t i = 0; i < n; i++) {
			struct node *child = &nodes[i];
			size_t at = child->parent ? by_id[child->parent] : 0;
			if (!at || child->gone || child->async || !child->operator)
				continue;
			struct node *parent = &nodes[at - 1];
			if (parent->async || !parent->operator|| parent->name != child->name || !child->name)
				continue;
			unsigned children = 0;
			for (size_t k = 0; k < n; k++)
				children += !nodes[k].gone && !nodes[k].async && nodes[k].parent == parent->id;
			if (children != 1)
				continue;
			child->gone = true;
			parent->self += child->self;
			for (size_t k = 0; k < n; k++)
				if (nodes[k].parent == child->id)
					nodes[k].parent = parent->id;
			again = true;
		}
	}
	for (size_t i = 0; i < n; i++) {
		const struct node *node = &nodes[i];
		if (node->gone || !node->operator)
			continue;
		size_t at = 0;
		while (at < count && (rows[at].name != node->name || rows[at].step != node->step))
			at++;
		if (at == count)
			rows[count++] = (struct row){node->name, node->step, 0, 0, 0, INT64_MAX, 0};
		rows[at].calls++;
		rows[at].self += (int64_t)node->self;
		rows[at].total += (int64_t)node->duration;
		if ((int64_t)node->duration < rows[at].min)
			rows[at].min = (int64_t)node->duration;
		if ((int64_t)node->duration > rows[at].max)
			rows[at].max = (int64_t)node->duration;
	}
	free(nodes);
	free(by_id);
	qsort(rows, count, sizeof *rows, compare_rows);
	return count;
}

static char folder[64];
static int folder_fd = -1;
static uint64_t number;

static void put_strings(struct store *store)
{
	for (uint32_t i = 1; i < 8; i++)
		store_put_string(store, i, "name", 4);
}

static size_t derived_rows(struct store *store, const struct log *log, bool in_memory, struct row *rows)
{
	struct totals totals;
	struct device device;
	struct derived derived;
	struct store_batch batch = {0};
	assert_int_equal(store_create(store, folder_fd, folder, ++number), 0);
	totals_init(&totals, NULL);
	device_init(&device, folder_fd, NULL);
	totals_chunk(&totals, 5, 1);
	for (size_t i = 0; i < log->count; i++) {
		assert_int_equal(store_batch_add(&batch, &log->events[i]), 0);
		totals_add(&totals, &log->events[i]);
	}
	for (uint32_t step = 1; step <= log->time / STEP_NS + 1; step++) {
		union event_any event = {.step = {.head = {sizeof event.step, EVENT_STEP, 0, step},
						  .start = (step - 1) * STEP_NS,
						  .duration = STEP_NS,
						  .number = step}};
		assert_int_equal(store_batch_add(&batch, &event), 0);
		totals_add(&totals, &event);
	}
	assert_int_equal(store_begin(store), 0);
	put_strings(store);
	assert_int_equal(store_put_batch(store, &batch), 0);
	assert_int_equal(store_commit(store), 0);
	store_batch_deinit(&batch);
	assert_false(totals.incomplete);
	if (!in_memory)
		totals.incomplete = true;
	assert_int_equal(derive_run(store, &totals, &device, false, false, NULL, &derived), 0);
	assert_int_equal(store_commit(store), 0);
	device_deinit(&device);
	totals_deinit(&totals);
	size_t count = 0;
	sqlite3_stmt *statement = store_prepare(
		store, "SELECT name, coalesce(step, 0), calls, self, total, min, max FROM operator_totals");
	while (sqlite3_step(statement) == SQLITE_ROW) {
		int64_t *columns = &rows[count++].name;
		for (int i = 0; i < 7; i++)
			columns[i] = sqlite3_column_int64(statement, i);
	}
	sqlite3_finalize(statement);
	store_discard(store);
	qsort(rows, count, sizeof *rows, compare_rows);
	return count;
}

static void assert_same(const struct row *rows, size_t count, const struct row *wanted, size_t wanted_count)
{
	assert_int_equal(count, wanted_count);
	for (size_t i = 0; i < count; i++)
		assert_memory_equal(&rows[i], &wanted[i], sizeof *rows);
}

static void test_memory_sql_and_reference_agree(void **state)
{
	static struct log log;
	static struct row wanted[EVENTS_MAX], memory[EVENTS_MAX], sql[EVENTS_MAX];
	struct store *store = store_new(NULL);
	size_t folded = 0;
	(void)state;
	for (unsigned round = 0; round < 60; round++) {
		srand(round);
		memset(&log, 0, sizeof log);
		while (log.count < EVENTS_MAX / 2)
			grow_tree(&log, 0, 1 + round % 3, 0);
		size_t wanted_count = reference(&log, wanted), operators = 0;
		for (size_t i = 0; i < log.count; i++)
			operators += log.events[i].head.kind == EVENT_OPERATOR;
		for (size_t i = 0; i < wanted_count; i++)
			operators -= (size_t)wanted[i].calls;
		folded += operators;
		size_t count = derived_rows(store, &log, true, memory);
		assert_same(memory, count, wanted, wanted_count);
		count = derived_rows(store, &log, false, sql);
		assert_same(sql, count, wanted, wanted_count);
	}
	assert_true(folded > 1000);
	store_free(store);
}

/* Clipped records come outermost first. */
static void test_clipped(void **state)
{
	static struct log log;
	static struct row wanted[8], memory[8], sql[8];
	struct store *store = store_new(NULL);
	(void)state;
	memset(&log, 0, sizeof log);
	log.id = 4;
	log.time = 100;
	put(&log, EVENT_OPERATOR, 4, 3, 2, 3, 30);
	for (uint16_t depth = 0; depth < 3; depth++)
		put(&log, EVENT_OPERATOR, depth + 1u, depth, 1, depth, depth + 1u)->head.flags = EVENT_FLAG_CLIPPED;
	size_t wanted_count = reference(&log, wanted);
	assert_int_equal(wanted_count, 2);
	assert_int_equal(wanted[0].calls, 1);
	assert_same(memory, derived_rows(store, &log, true, memory), wanted, wanted_count);
	assert_same(sql, derived_rows(store, &log, false, sql), wanted, wanted_count);
	store_free(store);
}

/* Chunks of a thread that come in another order than they were written: the rows decide. */
static void test_disorder_is_seen(void **state)
{
	struct totals totals;
	(void)state;
	totals_init(&totals, NULL);
	totals_chunk(&totals, 5, 3);
	totals_chunk(&totals, 6, 2);
	totals_chunk(&totals, 5, 4);
	totals_end(&totals);
	assert_false(totals.incomplete);
	totals_chunk(&totals, 6, 1);
	totals_end(&totals);
	assert_true(totals.incomplete);
	totals_deinit(&totals);
}

static void test_bounds(void **state)
{
	struct totals totals;
	union event_any event = {.operator= {.head = {sizeof event.operator, EVENT_OPERATOR, 0, 1},
					     .duration = 1,
					     .id = 2,
					     .parent = 1,
					     .depth = 60000} };
	(void)state;
	totals_init(&totals, NULL);
	totals_add(&totals, &event);
	assert_true(totals.incomplete);
	totals_deinit(&totals);
	totals_init(&totals, NULL);
	event.operator.depth = 0;
	for (uint32_t i = 0; i < 200000 && !totals.incomplete; i++) {
		event.operator.thread = i;
		totals_add(&totals, &event);
	}
	assert_true(totals.incomplete);
	totals_deinit(&totals);
}

static void put_thread(struct store_batch *batch, uint32_t tid, uint32_t name, uint64_t pthread, uint32_t torch_id)
{
	union event_any event = {.thread = {.head = {sizeof event.thread, EVENT_THREAD, 0, 0},
					    .pthread = pthread,
					    .thread = tid,
					    .name = name,
					    .torch_id = torch_id}};
	assert_int_equal(store_batch_add(batch, &event), 0);
}

static void test_threads_are_merged(void **state)
{
	struct store *store = store_new(NULL);
	struct totals totals;
	struct device device;
	struct derived derived;
	struct store_batch batch = {0};
	(void)state;
	assert_int_equal(store_create(store, folder_fd, folder, ++number), 0);
	totals_init(&totals, NULL);
	device_init(&device, folder_fd, NULL);
	put_thread(&batch, 7, 1, 0x1000, 0);
	put_thread(&batch, 8, 2, 0x2000, 0);
	put_thread(&batch, 7, 0, 0, 3);
	put_thread(&batch, 7, 4, 0, 0);
	assert_int_equal(store_begin(store), 0);
	put_strings(store);
	assert_int_equal(store_put_batch(store, &batch), 0);
	assert_int_equal(store_commit(store), 0);
	assert_int_equal(derive_run(store, &totals, &device, false, false, NULL, &derived), 0);
	assert_int_equal(store_commit(store), 0);
	device_deinit(&device);
	static const int64_t wanted[2][4] = {{7, 4, 0x1000, 3}, {8, 2, 0x2000, 0}};
	sqlite3_stmt *statement =
		store_prepare(store, "SELECT thread, name, pthread, torch_id FROM threads ORDER BY thread");
	for (int i = 0; i < 2; i++) {
		assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
		for (int k = 0; k < 4; k++)
			assert_int_equal(sqlite3_column_int64(statement, k), wanted[i][k]);
	}
	assert_int_equal(sqlite3_step(statement), SQLITE_DONE);
	sqlite3_finalize(statement);
	store_discard(store);
	store_free(store);
	totals_deinit(&totals);
	store_batch_deinit(&batch);
}

static int make_folder(void **state)
{
	(void)state;
	snprintf(folder, sizeof folder, "/tmp/profd-fold-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return folder_fd < 0;
}

static int remove_folder(void **state)
{
	(void)state;
	close(folder_fd);
	return rmdir(folder);
}

/* Many threads with one deep record each take no more memory than one record each. Where that is too much, SQL does it. */
static void test_deep_threads(void **state)
{
	(void)state;
	struct totals totals;
	for (uint64_t most = 64u << 20; most; most = most == 64u << 20 ? 1 << 20 : 0) {
		struct memory memory = {.most = most};
		totals_init(&totals, &memory);
		for (uint32_t i = 1; i <= 60000; i++) {
			union event_any event = {.operator= {.head = {sizeof event.operator, EVENT_OPERATOR, 0, 1},
							     .start = i,
							     .duration = 10,
							     .id = i,
							     .parent = 7,
							     .name = 1,
							     .thread = i,
							     .depth = 1023} };
			totals_add(&totals, &event);
		}
		totals_end(&totals);
		assert_true(memory.used <= most && memory.used < 32u << 20);
		assert_true(totals.incomplete == (most == 1 << 20));
		if (!totals.incomplete)
			assert_true(totals.table && totals.count == 1);
		totals_deinit(&totals);
		assert_true(memory.used == 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory_sql_and_reference_agree),
		cmocka_unit_test(test_clipped),
		cmocka_unit_test(test_disorder_is_seen),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_threads_are_merged),
		cmocka_unit_test(test_deep_threads),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
