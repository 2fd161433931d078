/* memory_held.c - see memory_held.h. A block lives until the next record of its address comes. The memory that this
 * needs grows with the addresses, which allocators use again and again. */
#include "memory_held.h"
#include "memory_blocks.h"
#include "memory_use.h"

/* The last record of an address. */
struct place {
	int64_t time, bytes;
	uint32_t call, step;
	bool taken;
};

/* Blocks of one holder, in one step or in all steps. */
struct held {
	int64_t blocks, bytes, steps;
};

struct work {
	struct store *store;
	const struct memory_calls *calls;
	struct memory_instants instants;
	struct numbered *devices;
	struct numbered places;	 /* (address, device's number, 0): struct place */
	struct numbered holders; /* as holder_of() makes them, with the step: struct held */
	struct numbered leaks;	 /* without the step: struct held */
	struct numbered steps;	 /* (number of the leak, step, 0): no value */
	bool nameless;		 /* addresses of some blocks are not known */
};

#define USE_BITS 3
#define PHASE_BITS 2
_Static_assert(MEMORY_USE_OLDER < 1 << USE_BITS && MEMORY_LOADER < 1 << PHASE_BITS, "they have that many bits");

/* (number of the device, use and phase; name and stack of the operator; step) */
static struct numbered_key holder_of(const struct work *work, const struct place *place, int64_t device, uint32_t step,
				     enum memory_use use)
{
	const struct memory_call *call = memory_calls_at(work->calls, place->call);
	const struct memory_call *owner = call ? memory_calls_at(work->calls, call->owner) : NULL;
	uint64_t name = owner ? owner->name : MEMORY_NULL, stack = owner ? owner->stack : MEMORY_NULL;
	return (struct numbered_key){(device << USE_BITS | use) << PHASE_BITS | (call ? call->phase : MEMORY_NO_PHASE),
				     (int64_t)(name << 32 | stack), memory_value(step)};
}

static struct held *add_held(struct numbered *all, const struct numbered_key *key, const struct place *place)
{
	struct held *held = numbered_add(all, key->a, key->b, key->c);
	if (!held)
		return NULL;
	held->blocks++;
	held->bytes = memory_plus(held->bytes, place->bytes);
	return held;
}

/* Adds the block to the holders, if it was taken before the peak and lived until after it (`until`). */
static bool add_holder(struct work *work, const struct place *place, int64_t number, int64_t until)
{
	struct memory_device *device = numbered_at(work->devices, (uint32_t)number);
	if (!place->taken || place->time > device->peak_time || until <= device->peak_time)
		return true;
	device->held = memory_plus(device->held, place->bytes);
	enum memory_use use =
		memory_use_of(&work->instants, memory_calls_at(work->calls, place->call), place->time, until);
	const struct numbered_key key = holder_of(work, place, number, place->step, use);
	return add_held(&work->holders, &key, place) != NULL;
}

static bool take(void *user, const struct memory_block *block)
{
	struct work *work = user;
	uint32_t device = numbered_find(work->devices, block->type, block->device, 0);
	if (!block->address || device == NUMBERED_NONE) {
		work->nameless = true;
		return true;
	}
	struct place *place = numbered_add(&work->places, block->address, device, 0);
	if (!place || !add_holder(work, place, device, block->time))
		return false;
	const struct memory_call *call = memory_calls_find(work->calls, block->parent);
	*place = (struct place){
		.time = block->time,
		.bytes = block->bytes,
		.call = call ? numbered_of(&work->calls->ids, call) : NUMBERED_NONE,
		.step = block->step,
		.taken = block->taken,
	};
	return true;
}

static bool add_leak(struct work *work, const struct place *place, int64_t device)
{
	const struct numbered_key key = holder_of(work, place, device, MEMORY_NULL, MEMORY_USE_NOT_KNOWN);
	struct held *leak = add_held(&work->leaks, &key, place);
	size_t before = work->steps.count;
	if (!leak || !numbered_add(&work->steps, numbered_of(&work->leaks, leak), place->step, 0))
		return false;
	leak->steps += work->steps.count > before;
	return true;
}

static int64_t last_but_one(struct store *store)
{
	sqlite3_stmt *statement = store_prepare(store, "SELECT max(step) - 2 FROM steps");
	int64_t step = statement && sqlite3_step(statement) == SQLITE_ROW ? memory_integer(statement, 0) : ROWS_NULL;
	sqlite3_finalize(statement);
	return step;
}

/* Takes the blocks that were never given back. */
static bool take_rest(struct work *work)
{
	int64_t last = last_but_one(work->store);
	bool room = true;
	for (uint32_t i = 0; i < work->places.count && room; i++) {
		const struct place *place = numbered_at(&work->places, i);
		int64_t device = work->places.keys[i].b;
		room = add_holder(work, place, device, INT64_MAX);
		if (room && place->taken && place->step != MEMORY_NULL && place->step <= last)
			room = add_leak(work, place, device);
	}
	return room;
}

static void bind(sqlite3_stmt *statement, int column, int64_t value)
{
	if (value == ROWS_NULL)
		sqlite3_bind_null(statement, column);
	else
		sqlite3_bind_int64(statement, column, value);
}

static enum memory_use use_of(const struct numbered_key *key)
{
	return (enum memory_use)(key->a >> PHASE_BITS & ((1 << USE_BITS) - 1));
}

/* `key` is as holder_of() makes it. Three values follow. */
static void insert(struct work *work, sqlite3_stmt *statement, const struct numbered_key *key, const int64_t values[3])
{
	static const char *const phases[] = {NULL, "backward", "optimizer", "input"};
	const struct numbered_key *device = &work->devices->keys[key->a >> (USE_BITS + PHASE_BITS)];
	sqlite3_bind_int64(statement, 1, device->a);
	sqlite3_bind_int64(statement, 2, device->b);
	bind(statement, 3, memory_value((uint32_t)((uint64_t)key->b >> 32)));
	bind(statement, 4, memory_value((uint32_t)key->b));
	sqlite3_bind_text(statement, 5, phases[key->a & ((1 << PHASE_BITS) - 1)], -1, SQLITE_STATIC);
	for (int i = 0; i < 3; i++)
		bind(statement, 6 + i, values[i]);
	store_step(work->store, statement);
}

static void write_holders(struct work *work)
{
	sqlite3_stmt *add =
		store_prepare(work->store, "INSERT INTO memory_holders (device_type, device, name, stack, phase, "
					   "step, blocks, bytes, use) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
	for (uint32_t i = 0; add && i < work->holders.count && !work->store->error; i++) {
		const struct held *held = numbered_at(&work->holders, i);
		const struct numbered_key *key = &work->holders.keys[i];
		sqlite3_bind_text(add, 9, memory_use_word(use_of(key)), -1, SQLITE_STATIC);
		insert(work, add, key, (int64_t[]){key->c, held->blocks, held->bytes});
	}
	for (uint32_t i = 0; add && i < work->devices->count && !work->nameless && !work->store->error; i++) {
		const struct memory_device *device = numbered_at(work->devices, i);
		/* The blocks from before the capture belong to no operator and no phase. */
		const struct numbered_key before = {(int64_t)i << (USE_BITS + PHASE_BITS), -1, ROWS_NULL};
		if (!device->absolute)
			continue;
		sqlite3_bind_text(add, 9, memory_use_word(MEMORY_USE_OLDER), -1, SQLITE_STATIC);
		insert(work, add, &before, (int64_t[]){ROWS_NULL, 0, memory_minus(device->peak, device->held)});
	}
	sqlite3_finalize(add);
}

static void write_leaks(struct work *work)
{
	sqlite3_stmt *add =
		store_prepare(work->store, "INSERT INTO memory_leaks (device_type, device, name, stack, phase, "
					   "blocks, bytes, steps) VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
	for (uint32_t i = 0; add && i < work->leaks.count && !work->store->error; i++) {
		const struct held *leak = numbered_at(&work->leaks, i);
		insert(work, add, &work->leaks.keys[i], (int64_t[]){leak->blocks, leak->bytes, leak->steps});
	}
	sqlite3_finalize(add);
}

bool memory_held(struct store *store, const struct memory_calls *calls, struct numbered *devices)
{
	struct work work = {
		.store = store,
		.calls = calls,
		.devices = devices,
		.places = {.bytes = sizeof(struct place), .memory = store->memory},
		.holders = {.bytes = sizeof(struct held), .memory = store->memory},
		.leaks = {.bytes = sizeof(struct held), .memory = store->memory},
		.steps = {.bytes = 1, .memory = store->memory},
	};
	bool room =
		memory_instants_load(&work.instants, store) && memory_blocks(store, take, &work) && take_rest(&work);
	if (room) {
		write_holders(&work);
		write_leaks(&work);
	}
	memory_instants_deinit(&work.instants);
	numbered_deinit(&work.places);
	numbered_deinit(&work.holders);
	numbered_deinit(&work.leaks);
	numbered_deinit(&work.steps);
	return room;
}
