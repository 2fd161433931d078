/* derive_memory.c - see derive_memory.h. The records are read twice: first for sums, levels and peaks; then, when the
 * peaks are known, for who held the memory at each peak (memory_held.c). The memory that this needs grows with
 * operators and addresses, not with records, and is counted for the user. */
#include "derive_memory.h"
#include "memory_blocks.h"
#include "memory_calls.h"
#include "memory_held.h"
#include "proto/base/numbered.h"
#include "rows.h"

#include "proto/events.h"

/* One device in one step. */
struct level {
	int64_t bytes, given_bytes, level, peak, peak_time;
	int64_t reserved, peak_reserved; /* ROWS_NULL: not told */
	uint32_t taken, given, unknown;
	bool any, absolute;
};

/* One name in one step. */
struct sum_of_name {
	int64_t taken, bytes, given, unknown, self_cpu, cpu, self_device, device;
};

struct work {
	struct memory_calls calls;
	struct numbered devices; /* (type, device, 0): struct memory_device */
	struct numbered steps;	 /* (step, type, device): struct level */
	struct numbered names;	 /* (name, step, 0): struct sum_of_name */
	struct numbered *stacks; /* the caller's */
};

/* ---------------------------------------------------------------- a record */

/* The level is highest after a block was taken, or before one is given back. */
static void add_level(struct level *level, struct memory_device *device, const struct memory_block *block)
{
	bool absolute = block->known & ALLOCATION_KNOWS_TOTALS;
	device->level = memory_plus(device->level, block->bytes);
	int64_t now = absolute ? block->total : device->level, before = memory_minus(now, block->bytes);
	int64_t most = now > before ? now : before;
	if (!level->any || most > level->peak) {
		level->peak = most;
		level->peak_time = memory_minus(block->time, now < most);
		level->peak_reserved = absolute ? block->reserved : ROWS_NULL;
	}
	if (!level->any)
		level->reserved = ROWS_NULL;
	/* ROWS_NULL is less than any value. */
	if (absolute && block->reserved > level->reserved)
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
		level->given_bytes = memory_minus(level->given_bytes, block->bytes);
}

static void add_sum(struct sum_of_name *sum, const struct memory_block *block, bool alone)
{
	int64_t *self = block->type != FRAMEWORK_CPU ? &sum->self_device : &sum->self_cpu;
	int64_t *all = block->type != FRAMEWORK_CPU ? &sum->device : &sum->cpu;
	sum->taken += block->taken;
	sum->given += !block->taken;
	sum->unknown += !(block->known & ALLOCATION_KNOWS_BYTES);
	*self = memory_plus(*self, block->bytes);
	if (block->taken)
		sum->bytes = memory_plus(sum->bytes, block->bytes);
	/* A block outside of all operators has no caller to which it is added later. */
	if (alone)
		*all = memory_plus(*all, block->bytes);
}

static bool add_stack(struct numbered *stacks, const struct memory_call *owner, const struct memory_block *block)
{
	if (!block->taken || !owner || owner->stack == MEMORY_NULL)
		return true;
	struct memory_of_stack *sum = numbered_add(stacks, owner->stack, memory_value(block->step), 0);
	if (!sum)
		return false;
	int64_t *bytes = block->type != FRAMEWORK_CPU ? &sum->device : &sum->cpu;
	*bytes = memory_plus(*bytes, block->bytes);
	return true;
}

static bool take(void *user, const struct memory_block *block)
{
	struct work *work = user;
	struct memory_call *call = memory_calls_find(&work->calls, block->parent);
	const struct memory_call *owner = call ? memory_calls_at(&work->calls, call->owner) : NULL;
	struct memory_device *device = numbered_add(&work->devices, block->type, block->device, 0);
	struct level *level = numbered_add(&work->steps, memory_value(block->step), block->type, block->device);
	struct sum_of_name *sum =
		numbered_add(&work->names, owner ? memory_value(owner->name) : ROWS_NULL, memory_value(block->step), 0);
	if (!device || !level || !sum || !add_stack(work->stacks, owner, block))
		return false;
	if (call)
		memory_calls_add(call, block->bytes, block->type != FRAMEWORK_CPU);
	add_level(level, device, block);
	add_sum(sum, block, !owner);
	return true;
}

/* ---------------------------------------------------------------- after all records */

static bool add_calls(struct work *work)
{
	if (!memory_calls_sum(&work->calls))
		return false;
	for (uint32_t i = 0; i < work->calls.ids.count; i++) {
		const struct memory_call *call = memory_calls_at(&work->calls, i);
		if (!call->used || !call->is_operator || call->folded)
			continue;
		struct sum_of_name *sum =
			numbered_add(&work->names, memory_value(call->name), memory_value(call->step), 0);
		if (!sum)
			return false;
		sum->cpu = memory_plus(sum->cpu, call->cpu);
		sum->device = memory_plus(sum->device, call->device);
	}
	return true;
}

static void find_peaks(struct work *work)
{
	for (uint32_t i = 0; i < work->steps.count; i++) {
		const struct numbered_key *key = &work->steps.keys[i];
		const struct level *level = numbered_at(&work->steps, i);
		struct memory_device *device = numbered_add(&work->devices, key->b, key->c, 0);
		if (device->any && level->peak <= device->peak)
			continue;
		device->any = true;
		device->peak = level->peak;
		device->peak_time = level->peak_time;
		device->absolute = level->absolute;
	}
}

static void write_levels(struct store *store, const struct numbered *steps)
{
	struct rows rows;
	rows_begin(&rows, store, "memory_steps", 14);
	for (uint32_t i = 0; i < steps->count && !store->error; i++) {
		const struct numbered_key *key = &steps->keys[i];
		const struct level *l = numbered_at(steps, i);
		rows_add(&rows,
			 (int64_t[]){key->a, key->b, key->c, l->absolute, l->taken, l->bytes, l->given, l->given_bytes,
				     l->unknown, l->level, l->peak, l->peak_time, l->reserved, l->peak_reserved});
	}
	rows_end(&rows);
}

static void write_sums(struct store *store, const struct numbered *names)
{
	struct rows rows;
	rows_begin(&rows, store, "memory_totals", 10);
	for (uint32_t i = 0; i < names->count && !store->error; i++) {
		const struct sum_of_name *s = numbered_at(names, i);
		rows_add(&rows, (int64_t[]){names->keys[i].a, names->keys[i].b, s->taken, s->bytes, s->given,
					    s->unknown, s->self_cpu, s->cpu, s->self_device, s->device});
	}
	rows_end(&rows);
}

static bool add_up(struct store *store, struct work *work)
{
	if (!memory_calls_load(&work->calls, store) || !memory_blocks(store, take, work) || !add_calls(work))
		return false;
	find_peaks(work);
	if (!memory_held(store, &work->calls, &work->devices))
		return false;
	write_levels(store, &work->steps);
	write_sums(store, &work->names);
	return true;
}

static bool any(struct store *store)
{
	sqlite3_stmt *statement = store_prepare(store, "SELECT 1 FROM framework_allocations LIMIT 1");
	bool found = statement && sqlite3_step(statement) == SQLITE_ROW;
	sqlite3_finalize(statement);
	return found;
}

bool derive_memory(struct store *store, struct numbered *ret_stacks)
{
	*ret_stacks = (struct numbered){.bytes = sizeof(struct memory_of_stack), .memory = store->memory};
	struct work work = {
		.stacks = ret_stacks,
		.devices = {.bytes = sizeof(struct memory_device), .memory = store->memory},
		.steps = {.bytes = sizeof(struct level), .memory = store->memory},
		.names = {.bytes = sizeof(struct sum_of_name), .memory = store->memory},
	};
	if (store->error || !any(store))
		return true;
	store_doing(store, "adding up memory");
	bool room = add_up(store, &work);
	memory_calls_deinit(&work.calls);
	numbered_deinit(&work.devices);
	numbered_deinit(&work.steps);
	numbered_deinit(&work.names);
	return room;
}
