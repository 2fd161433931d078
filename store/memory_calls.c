/* memory_calls.c - see memory_calls.h. The depths that records state decide in which order parents are followed: so
 * parents in a circle do no harm. */
#include "memory_calls.h"
#include "fold_rule.h"

#include "proto/events.h"

#define DEPTHS (UINT16_MAX + 1u)

/* Operators that bring a batch, if no DataLoader does, or if the batch goes to a device. */
#define BRINGING                                                                                                               \
	"('aten::to', 'aten::_to_copy', 'aten::pin_memory', 'aten::_pin_memory', 'aten::empty', 'aten::zeros', 'aten::ones', " \
	"'aten::full', 'aten::rand', 'aten::randn', 'aten::randint', 'aten::arange')"
/* Both statements have the same columns: id, parent, name, step, thread, flags, depth, stack, phase, on a stack,
 * rowid, brings. */
#define OPERATORS_SQL                                                                                                  \
	"SELECT id, parent, name, step, thread, flags, depth, stack, " MEMORY_BACKWARD_SQL ", 1, rowid, "              \
	"name IN (SELECT id FROM strings WHERE text IN " BRINGING ") FROM operators"
#define RANGES_SQL                                                                                                     \
	"SELECT r.id, r.parent, NULL, r.step, r.thread, r.flags, r.depth, NULL, CASE WHEN s.text GLOB "                \
	"'Optimizer.step#*' THEN 2 WHEN s.text GLOB '" MEMORY_LOADER_GLOB                                              \
	"' THEN 3 END, r.source <> 2, r.rowid, 0 FROM ranges r LEFT JOIN strings s ON s.id = r.name"
_Static_assert(MEMORY_BACKWARD == 1 && MEMORY_OPTIMIZER == 2 && MEMORY_LOADER == 3 && RANGE_SOURCE_NVTX_START_END == 2,
	       "as the statements above have them");

/* The first row with an id gets it. Later rows with the same id, and rows without an id, are only children. */
static struct memory_call *place_of(struct memory_calls *calls, sqlite3_stmt *row, bool is_operator, bool on_stack,
				    bool *known)
{
	int64_t id = memory_integer(row, 0);
	size_t before = calls->ids.count;
	struct memory_call *call = NULL;
	if (id != ROWS_NULL && on_stack)
		call = numbered_add(&calls->ids, id, 0, 0);
	*known = calls->ids.count > before;
	return *known ? call : numbered_add(&calls->ids, sqlite3_column_int64(row, 10), 1, is_operator);
}

static bool take(struct memory_calls *calls, sqlite3_stmt *row, bool is_operator)
{
	bool known, on_stack = sqlite3_column_int(row, 9);
	struct memory_call *call = place_of(calls, row, is_operator, on_stack, &known);
	if (!call)
		return false;
	int64_t depth = sqlite3_column_int64(row, 6);
	*call = (struct memory_call){
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
		.brings = sqlite3_column_int(row, 11),
	};
	return true;
}

static bool read_all(struct memory_calls *calls, struct store *store, const char *sql, bool is_operator)
{
	sqlite3_stmt *rows = store_prepare(store, sql);
	bool room = true;
	while (rows && room && !store_over(store) && sqlite3_step(rows) == SQLITE_ROW)
		room = take(calls, rows, is_operator);
	sqlite3_finalize(rows);
	return room;
}

static struct memory_call *call_of(const struct memory_calls *calls, uint32_t number)
{
	return numbered_at(&calls->ids, number);
}

/* Numbers of the calls in the order of their depths; NULL: there is no memory. The caller gives (count + 1) * 4 bytes
 * back. */
static uint32_t *by_depth(const struct memory_calls *calls)
{
	size_t count = calls->ids.count;
	struct memory *memory = calls->ids.memory;
	uint32_t *order = memory_get(memory, (count + 1) * sizeof *order);
	uint32_t *begins = order ? memory_get(memory, (DEPTHS + 1) * sizeof *begins) : NULL;
	if (!begins) {
		memory_put(memory, order, order ? (count + 1) * sizeof *order : 0);
		return NULL;
	}
	for (uint32_t i = 0; i < count; i++)
		begins[call_of(calls, i)->depth + 1]++;
	for (size_t depth = 0; depth < DEPTHS; depth++)
		begins[depth + 1] += begins[depth];
	for (uint32_t i = 0; i < count; i++)
		order[begins[call_of(calls, i)->depth]++] = i;
	memory_put(memory, begins, (DEPTHS + 1) * sizeof *begins);
	return order;
}

/* Replaces ids of parents by numbers. */
static void find_parents(struct memory_calls *calls)
{
	for (uint32_t i = 0; i < calls->ids.count; i++) {
		struct memory_call *call = call_of(calls, i), *parent = memory_calls_find(calls, call->parent_id);
		call->cpu = 0;
		call->parent = parent ? numbered_of(&calls->ids, parent) : NUMBERED_NONE;
		call->owner = call->is_operator ? i : NUMBERED_NONE;
		if (parent && !call->no_child)
			parent->children++;
	}
}

static struct fold_row row_of(const struct memory_call *call)
{
	return (struct fold_row){.name = call->is_operator && call->name != MEMORY_NULL ? call->name : 0,
				 .thread = call->thread,
				 .children = call->children,
				 .apart = call->no_child};
}

static bool is_folded(const struct memory_call *call, const struct memory_call *parent)
{
	struct fold_row row = row_of(call), of_parent = row_of(parent);
	return call->known && fold_row_is_folded(&row, &of_parent);
}

bool memory_calls_load(struct memory_calls *calls, struct store *store)
{
	*calls = (struct memory_calls){.ids = {.bytes = sizeof(struct memory_call), .memory = store->memory}};
	if (!read_all(calls, store, OPERATORS_SQL, true) || !read_all(calls, store, RANGES_SQL, false))
		return false;
	find_parents(calls);
	uint32_t *order = by_depth(calls);
	for (size_t i = 0; order && i < calls->ids.count; i++) {
		struct memory_call *call = call_of(calls, order[i]), *parent = memory_calls_at(calls, call->parent);
		if (!parent)
			continue;
		if (parent->owner != NUMBERED_NONE)
			call->brings = parent->brings;
		if (call->owner == NUMBERED_NONE)
			call->owner = parent->owner;
		if (!call->phase)
			call->phase = parent->phase;
		call->folded = is_folded(call, parent);
	}
	memory_put(calls->ids.memory, order, order ? (calls->ids.count + 1) * sizeof *order : 0);
	return order != NULL;
}

void memory_calls_deinit(struct memory_calls *calls)
{
	numbered_deinit(&calls->ids);
}

struct memory_call *memory_calls_at(const struct memory_calls *calls, uint32_t number)
{
	return number == NUMBERED_NONE ? NULL : call_of(calls, number);
}

struct memory_call *memory_calls_find(const struct memory_calls *calls, int64_t id)
{
	return id == ROWS_NULL ? NULL : memory_calls_at(calls, numbered_find(&calls->ids, id, 0, 0));
}

void memory_calls_add(struct memory_call *call, int64_t bytes, bool device)
{
	int64_t *sum = device ? &call->device : &call->cpu;
	*sum = memory_plus(*sum, bytes);
	call->used = true;
}

bool memory_calls_sum(struct memory_calls *calls)
{
	uint32_t *order = by_depth(calls);
	for (size_t i = calls->ids.count; order && i-- > 0;) {
		const struct memory_call *call = call_of(calls, order[i]);
		struct memory_call *parent = memory_calls_at(calls, call->parent);
		if (!call->used || !parent)
			continue;
		memory_calls_add(parent, call->cpu, false);
		memory_calls_add(parent, call->device, true);
	}
	memory_put(calls->ids.memory, order, order ? (calls->ids.count + 1) * sizeof *order : 0);
	return order != NULL;
}
