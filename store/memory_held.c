/* memory_held.c - who held memory at the peak, and what stays (memory_work.h). */
#include "memory_work.h"
#include "rows.h"

#include "proto/base/array.h"

#include <stdlib.h>

/* A block that was held at the peak, or stays. */
struct held {
	int64_t type, device, name, stack, step, bytes;
	uint8_t phase;
};

static struct held held_of(const struct memory_work *work, const struct block *block)
{
	const struct memory_call *call = memory_call_of(work, block->call), *owner = memory_owner_of(work, block);
	const struct numbered_key *device = &work->devices.keys[block->device];
	return (struct held){
		.type = device->a,
		.device = device->b,
		.name = owner ? memory_value(owner->name) : ROWS_NULL,
		.stack = owner ? memory_value(owner->stack) : ROWS_NULL,
		.step = memory_value(block->step),
		.bytes = block->bytes,
		.phase = call ? call->phase : MEMORY_NO_PHASE,
	};
}

static int by_holder(const void *one, const void *other)
{
	const struct held *a = one, *b = other;
	return a->type != b->type	? ORDER(a->type, b->type)
	       : a->device != b->device ? ORDER(a->device, b->device)
	       : a->name != b->name	? ORDER(a->name, b->name)
	       : a->stack != b->stack	? ORDER(a->stack, b->stack)
					: ORDER(a->phase, b->phase);
}

static int by_holder_and_step(const void *one, const void *other)
{
	const struct held *a = one, *b = other;
	int order = by_holder(one, other);
	return order ? order : ORDER(a->step, b->step);
}

static void bind(sqlite3_stmt *statement, int column, int64_t value)
{
	if (value == ROWS_NULL)
		sqlite3_bind_null(statement, column);
	else
		sqlite3_bind_int64(statement, column, value);
}

/* Values behind `phase`, which is the fifth. */
static void insert(struct store *store, sqlite3_stmt *statement, const struct held *held, const int64_t values[3])
{
	static const char *const phases[] = {NULL, "backward", "optimizer"};
	sqlite3_bind_int64(statement, 1, held->type);
	sqlite3_bind_int64(statement, 2, held->device);
	bind(statement, 3, held->name);
	bind(statement, 4, held->stack);
	sqlite3_bind_text(statement, 5, phases[held->phase], -1, SQLITE_STATIC);
	for (int i = 0; i < 3; i++)
		bind(statement, 6 + i, values[i]);
	store_step(store, statement);
}

static bool is_at_peak(const struct memory_work *work, const struct block *block, int64_t last_step)
{
	int64_t peak = work->device[block->device].peak_time;
	(void)last_step;
	return block->time <= peak && block->until > peak;
}

static bool stays(const struct memory_work *work, const struct block *block, int64_t last_step)
{
	(void)work;
	return block->until == INT64_MAX && block->step != MEMORY_NULL && block->step <= last_step;
}

/* The blocks that were taken and are `wanted`, sorted. */
static struct held *collect(const struct memory_work *work,
			    bool (*wanted)(const struct memory_work *, const struct block *, int64_t),
			    int64_t last_step, int (*compare)(const void *, const void *), size_t *ret_count,
			    size_t *ret_room)
{
	struct held *list = NULL;
	*ret_count = *ret_room = 0;
	for (size_t i = 0; i < work->count; i++) {
		const struct block *block = &work->blocks[i];
		if (!block->taken || !wanted(work, block, last_step))
			continue;
		struct held *grown =
			numbered_room(work->store->memory, list, ret_room, (uint32_t)*ret_count, sizeof *list);
		if (!grown) {
			memory_no_room(work->store);
			break;
		}
		list = grown;
		list[(*ret_count)++] = held_of(work, block);
	}
	if (*ret_count)
		qsort(list, *ret_count, sizeof *list, compare);
	return list;
}

static void write_held_before(struct memory_work *work, sqlite3_stmt *add)
{
	for (size_t i = 0; i < work->devices.count && !work->nameless; i++) {
		const struct memory_device *device = &work->device[i];
		const struct held held = {.type = work->devices.keys[i].a,
					  .device = work->devices.keys[i].b,
					  .name = ROWS_NULL,
					  .stack = ROWS_NULL};
		if (device->absolute)
			insert(work->store, add, &held,
			       (int64_t[]){ROWS_NULL, 0, memory_plus(device->peak, memory_plus(0, -device->held))});
	}
}

void memory_held_at_peak(struct memory_work *work)
{
	size_t count, room;
	struct held *list = collect(work, is_at_peak, 0, by_holder_and_step, &count, &room);
	sqlite3_stmt *add =
		store_prepare(work->store, "INSERT INTO memory_holders (device_type, device, name, stack, phase, "
					   "step, blocks, bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
	for (size_t i = 0, next; add && i < count && !work->store->error; i = next) {
		int64_t bytes = 0;
		for (next = i; next < count && !by_holder_and_step(&list[i], &list[next]); next++)
			bytes = memory_plus(bytes, list[next].bytes);
		struct memory_device *device =
			&work->device[numbered_find(&work->devices, list[i].type, list[i].device, 0)];
		device->held = memory_plus(device->held, bytes);
		insert(work->store, add, &list[i], (int64_t[]){list[i].step, (int64_t)(next - i), bytes});
	}
	if (add && !work->store->error)
		write_held_before(work, add);
	sqlite3_finalize(add);
	memory_put(work->store->memory, list, room * sizeof *list);
}

static int64_t last_but_one(struct store *store)
{
	sqlite3_stmt *statement = store_prepare(store, "SELECT max(step) - 2 FROM steps");
	int64_t step = statement && sqlite3_step(statement) == SQLITE_ROW ? memory_integer(statement, 0) : ROWS_NULL;
	sqlite3_finalize(statement);
	return step;
}

void memory_held_at_end(struct memory_work *work)
{
	size_t count, room;
	struct held *list = collect(work, stays, last_but_one(work->store), by_holder_and_step, &count, &room);
	sqlite3_stmt *add =
		store_prepare(work->store, "INSERT INTO memory_leaks (device_type, device, name, stack, phase, "
					   "blocks, bytes, steps) VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
	for (size_t i = 0, next; add && i < count && !work->store->error; i = next) {
		int64_t bytes = 0, steps = 0;
		for (next = i; next < count && !by_holder(&list[i], &list[next]); next++) {
			bytes = memory_plus(bytes, list[next].bytes);
			steps += next == i || list[next].step != list[next - 1].step;
		}
		insert(work->store, add, &list[i], (int64_t[]){(int64_t)(next - i), bytes, steps});
	}
	sqlite3_finalize(add);
	memory_put(work->store->memory, list, room * sizeof *list);
}
