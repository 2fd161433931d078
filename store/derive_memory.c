/* derive_memory.c - see derive_memory.h. The records go by once, in the order of their times. What is held for it grows with the records, and
 * counts in the user's memory. No locks. */
#include "derive_memory.h"
#include "memory_work.h"
#include "rows.h"

#include "proto/base/array.h"
#include "proto/events.h"

#include <stdlib.h>

_Static_assert(ALLOCATION_TAKEN == 1 && ALLOCATION_GIVEN_BACK == 2, "as the statement below has them");
#define BLOCKS_SQL                                                                                                     \
	"SELECT time, step, parent, device_type, device, operation = 1, known, bytes, total, reserved, address "       \
	"FROM framework_allocations ORDER BY rowid"

/* ---------------------------------------------------------------- reading */

static bool take(struct memory_work *work, sqlite3_stmt *row)
{
	struct memory *memory = work->store->memory;
	if (work->count >= NUMBERED_NONE - 1)
		return false;
	struct block *blocks =
		numbered_room(memory, work->blocks, &work->blocks_room, (uint32_t)work->count, sizeof *blocks);
	if (!blocks)
		return false;
	work->blocks = blocks;
	int64_t type = sqlite3_column_int64(row, 3), index = sqlite3_column_int64(row, 4);
	uint32_t number = numbered_add(&work->devices, type, index, 0);
	struct memory_device *device = number == NUMBERED_NONE ? NULL
							       : numbered_room(memory, work->device, &work->device_room,
									       number, sizeof *device);
	if (!device || number > UINT16_MAX)
		return false;
	work->device = device;
	int64_t known = sqlite3_column_int64(row, 6), bytes = sqlite3_column_int64(row, 7);
	bool taken = sqlite3_column_int(row, 5);
	blocks[work->count] = (struct block){
		.time = sqlite3_column_int64(row, 0),
		.step = memory_number(row, 1),
		.address = sqlite3_column_int64(row, 10),
		.bytes = !(known & ALLOCATION_KNOWS_BYTES) ? 0
			 : taken			   ? bytes
							   : memory_plus(0, -bytes),
		.total = sqlite3_column_int64(row, 8),
		.reserved = sqlite3_column_int64(row, 9),
		.order = (uint32_t)work->count,
		.call = memory_calls_find(&work->calls, memory_integer(row, 2)),
		.device = (uint16_t)number,
		.known = (uint8_t)known,
		.taken = taken,
	};
	work->nameless |= !blocks[work->count++].address;
	return true;
}

static int by_time(const void *one, const void *other)
{
	const struct block *a = one, *b = other;
	return a->time != b->time ? ORDER(a->time, b->time) : ORDER(a->order, b->order);
}

static void read_blocks(struct memory_work *work)
{
	sqlite3_stmt *rows = store_prepare(work->store, BLOCKS_SQL);
	bool room = true, sorted = true;
	while (rows && room && !store_over(work->store) && sqlite3_step(rows) == SQLITE_ROW)
		room = take(work, rows);
	sqlite3_finalize(rows);
	if (!room)
		memory_no_room(work->store);
	for (size_t i = 1; i < work->count; i++)
		sorted &= work->blocks[i - 1].time <= work->blocks[i].time;
	if (!sorted)
		qsort(work->blocks, work->count, sizeof *work->blocks, by_time);
}

/* ---------------------------------------------------------------- how long blocks live */

static void find_ends(struct memory_work *work)
{
	struct numbered places = {.memory = work->store->memory};
	uint32_t *last = NULL;
	size_t room = 0;
	bool there = true;
	for (size_t i = 0; i < work->count && there; i++) {
		struct block *block = &work->blocks[i];
		int64_t address = block->address;
		block->until = address ? INT64_MAX : block->time;
		if (!address)
			continue;
		size_t before = places.count;
		uint32_t number = numbered_add(&places, address, block->device, 0);
		uint32_t *grown = number == NUMBERED_NONE
					  ? NULL
					  : numbered_room(work->store->memory, last, &room, number, sizeof *last);
		there = grown != NULL;
		if (!there)
			break;
		last = grown;
		if (places.count == before)
			work->blocks[last[number]].until = block->time;
		last[number] = (uint32_t)i;
	}
	numbered_deinit(&places);
	memory_put(work->store->memory, last, room * sizeof *last);
	if (!there)
		memory_no_room(work->store);
}

/* ---------------------------------------------------------------- by step and device */

static struct memory_level *level_of(struct memory_work *work, const struct block *block)
{
	const struct numbered_key *device = &work->devices.keys[block->device];
	uint32_t number = numbered_add(&work->steps, memory_value(block->step), device->a, device->b);
	struct memory_level *all = number == NUMBERED_NONE ? NULL
							   : numbered_room(work->store->memory, work->level,
									   &work->level_room, number, sizeof *all);
	if (!all)
		return NULL;
	work->level = all;
	return &all[number];
}

/* Most is held after a block was taken, and before one is given back. */
static void add_level(struct memory_level *level, struct memory_device *device, const struct block *block)
{
	bool absolute = block->known & ALLOCATION_KNOWS_TOTALS;
	device->level = memory_plus(device->level, block->bytes);
	int64_t now = absolute ? block->total : device->level;
	int64_t before = memory_plus(now, memory_plus(0, -block->bytes)), most = now > before ? now : before;
	if (!level->any || most > level->peak) {
		level->peak = most;
		level->peak_time = block->time - (now < most);
	}
	if (!level->any)
		level->reserved = ROWS_NULL;
	if (absolute && (level->reserved == ROWS_NULL || block->reserved > level->reserved))
		level->reserved = block->reserved;
	level->any = true;
	level->absolute |= absolute;
	level->level = now;
	level->taken += block->taken;
	level->given += !block->taken;
	level->unknown += !(block->known & ALLOCATION_KNOWS_BYTES);
	if (block->taken)
		level->bytes = memory_plus(level->bytes, block->bytes);
	else
		level->given_bytes = memory_plus(level->given_bytes, memory_plus(0, -block->bytes));
}

static void add_levels(struct memory_work *work)
{
	for (size_t i = 0; i < work->count && !work->store->error; i++) {
		struct memory_level *level = level_of(work, &work->blocks[i]);
		if (level)
			add_level(level, &work->device[work->blocks[i].device], &work->blocks[i]);
		else
			memory_no_room(work->store);
	}
}

/* Also finds each device's highest peak. */
static void write_levels(struct memory_work *work)
{
	struct rows rows;
	uint32_t *order = numbered_sorted(&work->steps);
	if (!order)
		memory_no_room(work->store);
	rows_begin(&rows, work->store, "memory_steps", 13);
	for (size_t i = 0; i < work->steps.count && !work->store->error; i++) {
		const struct numbered_key *key = &work->steps.keys[order[i]];
		const struct memory_level *l = &work->level[order[i]];
		struct memory_device *device = &work->device[numbered_find(&work->devices, key->b, key->c, 0)];
		if (!device->any || l->peak > device->peak) {
			device->peak = l->peak;
			device->peak_time = l->peak_time;
			device->absolute = l->absolute;
		}
		device->any = true;
		rows_add(&rows, (int64_t[]){key->a, key->b, key->c, l->absolute, l->taken, l->bytes, l->given,
					    l->given_bytes, l->unknown, l->level, l->peak, l->peak_time, l->reserved});
	}
	rows_end(&rows);
	memory_put(work->store->memory, order, order ? (work->steps.count + 1) * sizeof *order : 0);
}

/* ---------------------------------------------------------------- by operator and step */

static struct memory_total *total_of(struct memory_work *work, uint32_t name, uint32_t step)
{
	uint32_t number = numbered_add(&work->names, memory_value(name), memory_value(step), 0);
	struct memory_total *all = number == NUMBERED_NONE ? NULL
							   : numbered_room(work->store->memory, work->total,
									   &work->total_room, number, sizeof *all);
	if (!all) {
		memory_no_room(work->store);
		return NULL;
	}
	work->total = all;
	return &all[number];
}

static void add_block(struct memory_total *total, const struct block *block, bool device, bool alone)
{
	int64_t *self = device ? &total->self_device : &total->self_cpu;
	int64_t *all = device ? &total->device : &total->cpu;
	total->taken += block->taken;
	total->given += !block->taken;
	total->unknown += !(block->known & ALLOCATION_KNOWS_BYTES);
	*self = memory_plus(*self, block->bytes);
	if (block->taken)
		total->bytes = memory_plus(total->bytes, block->bytes);
	/* What is in no operator is called by none. */
	if (alone)
		*all = memory_plus(*all, block->bytes);
}

static void add_totals(struct memory_work *work)
{
	for (size_t i = 0; i < work->count && !work->store->error; i++) {
		const struct block *block = &work->blocks[i];
		const struct memory_call *owner = memory_owner_of(work, block);
		struct memory_total *total = total_of(work, owner ? owner->name : MEMORY_NULL, block->step);
		if (total)
			add_block(total, block, work->devices.keys[block->device].a != 0, !owner);
	}
	for (size_t i = 0; i < work->calls.ids.count && !work->store->error; i++) {
		const struct memory_call *call = &work->calls.all[i];
		if (!call->used || !call->is_operator || call->folded)
			continue;
		struct memory_total *total = total_of(work, call->name, call->step);
		if (!total)
			break;
		total->cpu = memory_plus(total->cpu, call->cpu);
		total->device = memory_plus(total->device, call->device);
	}
}

static void write_totals(struct memory_work *work)
{
	struct rows rows;
	uint32_t *order = numbered_sorted(&work->names);
	if (!order)
		memory_no_room(work->store);
	rows_begin(&rows, work->store, "memory_totals", 10);
	for (size_t i = 0; i < work->names.count && !work->store->error; i++) {
		const struct numbered_key *key = &work->names.keys[order[i]];
		const struct memory_total *t = &work->total[order[i]];
		rows_add(&rows, (int64_t[]){key->a, key->b, t->taken, t->bytes, t->given, t->unknown, t->self_cpu,
					    t->cpu, t->self_device, t->device});
	}
	rows_end(&rows);
	memory_put(work->store->memory, order, order ? (work->names.count + 1) * sizeof *order : 0);
}

/* ---------------------------------------------------------------- all of it */

static bool any(struct store *store)
{
	sqlite3_stmt *statement = store_prepare(store, "SELECT 1 FROM framework_allocations LIMIT 1");
	bool found = statement && sqlite3_step(statement) == SQLITE_ROW;
	sqlite3_finalize(statement);
	return found;
}

static void add_calls(struct memory_work *work)
{
	for (size_t i = 0; i < work->count; i++) {
		const struct block *block = &work->blocks[i];
		if (block->call != NUMBERED_NONE)
			memory_calls_add(&work->calls, block->call, block->bytes,
					 work->devices.keys[block->device].a != 0);
	}
	memory_calls_sum(&work->calls, work->store);
}

void derive_memory(struct store *store)
{
	static void (*const parts[])(struct memory_work *) = {
		read_blocks, find_ends,	   add_calls,		add_totals,	    write_totals,
		add_levels,  write_levels, memory_held_at_peak, memory_held_at_end,
	};
	struct memory_work work = {.store = store,
				   .devices.memory = store->memory,
				   .steps.memory = store->memory,
				   .names.memory = store->memory};
	if (store->error || !any(store))
		return;
	store_doing(store, "adding up memory");
	memory_calls_load(&work.calls, store);
	for (size_t i = 0; i < sizeof parts / sizeof *parts && !store_over(store) && !store->error; i++)
		parts[i](&work);
	memory_calls_deinit(&work.calls, store);
	numbered_deinit(&work.devices);
	numbered_deinit(&work.steps);
	numbered_deinit(&work.names);
	memory_put(store->memory, work.blocks, work.blocks_room * sizeof *work.blocks);
	memory_put(store->memory, work.device, work.device_room * sizeof *work.device);
	memory_put(store->memory, work.level, work.level_room * sizeof *work.level);
	memory_put(store->memory, work.total, work.total_room * sizeof *work.total);
}
