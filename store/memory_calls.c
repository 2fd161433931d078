/* memory_calls.c - see memory_calls.h. Parents are followed by the depths that records state, so that parents in a circle end. */
#include "memory_calls.h"

#include "proto/events.h"

#include <limits.h>

#define DEPTHS (UINT16_MAX + 1u)

/* One column list for both: id, parent, name, step, thread, flags, depth, stack, phase, on a stack. */
#define OPERATORS_SQL "SELECT id, parent, name, step, thread, flags, depth, stack, scope = 1, 1, rowid FROM operators"
#define RANGES_SQL                                                                                                      \
	"SELECT r.id, r.parent, NULL, r.step, r.thread, r.flags, r.depth, NULL, 2 * (s.text GLOB 'Optimizer.step#*'), " \
	"r.source <> 2, r.rowid FROM ranges r LEFT JOIN strings s ON s.id = r.name"
/* scope 1: at::RecordScope::BACKWARD_FUNCTION. */
_Static_assert(MEMORY_BACKWARD == 1 && MEMORY_OPTIMIZER == 2 && RANGE_SOURCE_NVTX_START_END == 2,
	       "as the statements above have them");

/* Of several with one id the first has it. */
static uint32_t number_of(struct memory_calls *calls, sqlite3_stmt *row, bool is_operator, bool on_stack, bool *known)
{
	int64_t id = memory_integer(row, 0);
	size_t before = calls->ids.count;
	*known = false;
	if (id != ROWS_NULL && on_stack) {
		uint32_t number = numbered_add(&calls->ids, id, 0, 0);
		*known = number == NUMBERED_NONE || calls->ids.count > before;
		if (*known)
			return number;
	}
	return numbered_add(&calls->ids, sqlite3_column_int64(row, 10), 1, is_operator);
}

static bool take(struct memory_calls *calls, struct store *store, sqlite3_stmt *row, bool is_operator)
{
	bool known, on_stack = sqlite3_column_int(row, 9);
	uint32_t number = number_of(calls, row, is_operator, on_stack, &known);
	struct memory_call *all = number == NUMBERED_NONE
					  ? NULL
					  : numbered_room(store->memory, calls->all, &calls->room, number, sizeof *all);
	if (!all)
		return false;
	calls->all = all;
	int64_t depth = sqlite3_column_int64(row, 6);
	all[number] = (struct memory_call){
		.parent_id = memory_integer(row, 1),
		.name = memory_number(row, 2),
		.step = memory_number(row, 3),
		.thread = (uint32_t)sqlite3_column_int64(row, 4),
		.no_child = !on_stack || sqlite3_column_int64(row, 5) & EVENT_FLAG_ASYNC,
		.depth = (uint16_t)(depth < 0	     ? 0
				    : depth < DEPTHS ? depth
						     : DEPTHS - 1),
		.stack = memory_number(row, 7),
		.phase = (unsigned)sqlite3_column_int(row, 8) & 3,
		.is_operator = is_operator,
		.known = known,
	};
	return true;
}

static void read_all(struct memory_calls *calls, struct store *store, const char *sql, bool is_operator)
{
	sqlite3_stmt *rows = store_prepare(store, sql);
	bool room = true;
	while (rows && room && !store_over(store) && sqlite3_step(rows) == SQLITE_ROW)
		room = take(calls, store, rows, is_operator);
	sqlite3_finalize(rows);
	if (!room)
		memory_no_room(store);
}

void memory_calls_load(struct memory_calls *calls, struct store *store)
{
	*calls = (struct memory_calls){.ids.memory = store->memory};
	read_all(calls, store, OPERATORS_SQL, true);
	if (!store->error)
		read_all(calls, store, RANGES_SQL, false);
	for (size_t i = 0; i < calls->ids.count && !store->error; i++) {
		struct memory_call *call = &calls->all[i];
		call->parent = memory_calls_find(calls, call->parent_id);
		call->cpu = 0;
		call->owner = call->is_operator ? (uint32_t)i : NUMBERED_NONE;
		if (call->parent != NUMBERED_NONE && !call->no_child && calls->all[call->parent].children < UINT_MAX)
			calls->all[call->parent].children++;
	}
}

void memory_calls_deinit(struct memory_calls *calls, struct store *store)
{
	numbered_deinit(&calls->ids);
	memory_put(store->memory, calls->all, calls->room * sizeof *calls->all);
}

uint32_t memory_calls_find(const struct memory_calls *calls, int64_t id)
{
	return id == ROWS_NULL ? NUMBERED_NONE : numbered_find(&calls->ids, id, 0, 0);
}

void memory_calls_add(struct memory_calls *calls, uint32_t number, int64_t bytes, bool device)
{
	struct memory_call *call = &calls->all[number];
	int64_t *sum = device ? &call->device : &call->cpu;
	*sum = memory_plus(*sum, bytes);
	call->used = true;
}

/* fold_rule.h has the rule. */
static bool is_folded(const struct memory_call *call, const struct memory_call *parent)
{
	return call->known && call->is_operator && parent->is_operator && call->name == parent->name &&
	       call->thread == parent->thread && !call->no_child && !parent->no_child && parent->children == 1;
}

/* Numbers in the order of their depths; NULL: there is no memory. */
static uint32_t *by_depth(const struct memory_calls *calls, struct store *store)
{
	size_t count = calls->ids.count;
	uint32_t *order = memory_get(store->memory, (count + 1) * sizeof *order);
	uint32_t *begins = memory_get(store->memory, (DEPTHS + 1) * sizeof *begins);
	for (size_t i = 0; order && begins && i < count; i++)
		begins[calls->all[i].depth + 1]++;
	for (size_t depth = 0; begins && depth < DEPTHS; depth++)
		begins[depth + 1] += begins[depth];
	for (size_t i = 0; order && begins && i < count; i++)
		order[begins[calls->all[i].depth]++] = (uint32_t)i;
	bool done = order && begins;
	memory_put(store->memory, begins, begins ? (DEPTHS + 1) * sizeof *begins : 0);
	if (done)
		return order;
	memory_put(store->memory, order, order ? (count + 1) * sizeof *order : 0);
	memory_no_room(store);
	return NULL;
}

void memory_calls_sum(struct memory_calls *calls, struct store *store)
{
	size_t count = calls->ids.count;
	uint32_t *order = by_depth(calls, store);
	for (size_t i = 0; order && i < count; i++) {
		struct memory_call *call = &calls->all[order[i]];
		const struct memory_call *parent = call->parent == NUMBERED_NONE ? NULL : &calls->all[call->parent];
		if (!parent)
			continue;
		if (call->owner == NUMBERED_NONE)
			call->owner = parent->owner;
		if (!call->phase)
			call->phase = parent->phase;
		call->folded = is_folded(call, parent);
	}
	for (size_t i = count; order && i-- > 0;) {
		const struct memory_call *call = &calls->all[order[i]];
		if (!call->used || call->parent == NUMBERED_NONE)
			continue;
		struct memory_call *parent = &calls->all[call->parent];
		parent->used = true;
		parent->cpu = memory_plus(parent->cpu, call->cpu);
		parent->device = memory_plus(parent->device, call->device);
	}
	memory_put(store->memory, order, order ? (count + 1) * sizeof *order : 0);
}
