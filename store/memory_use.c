/* memory_use.c - see memory_use.h. */
#include "memory_use.h"

/* A block that is still there after so many ends of steps is kept for something else than these steps: a cache, a
 * leak, a parameter. */
#define STEPS_KEPT 3

/* In the order of enum memory_instant: SQL that counts the instants, and SQL that lists them. */
#define RANGES_SQL(what, names) "SELECT " what " FROM ranges r JOIN strings s ON s.id = r.name WHERE " names
static const char *const instants_sql[][2] = {
	[MEMORY_BACKWARD_BEGINS] = {"SELECT count(*) FROM operators WHERE " MEMORY_BACKWARD_SQL,
				    "SELECT start FROM operators WHERE " MEMORY_BACKWARD_SQL " ORDER BY 1"},
	[MEMORY_GRADIENTS_READ] =
		{RANGES_SQL("count(*)", "s.text GLOB 'Optimizer.step#*' OR s.text GLOB 'Optimizer.zero_grad#*'"),
		 RANGES_SQL("r.start",
			    "s.text GLOB 'Optimizer.step#*' OR s.text GLOB 'Optimizer.zero_grad#*' ORDER BY 1")},
	[MEMORY_OPTIMIZER_ENDS] = {RANGES_SQL("count(*)", "s.text GLOB 'Optimizer.step#*'"),
				   RANGES_SQL("r.start + r.duration", "s.text GLOB 'Optimizer.step#*' ORDER BY 1")},
	[MEMORY_LOADER_ENDS] = {RANGES_SQL("count(*)", "s.text GLOB '" MEMORY_LOADER_GLOB "'"),
				RANGES_SQL("r.start + r.duration", "s.text GLOB '" MEMORY_LOADER_GLOB "' ORDER BY 1")},
	[MEMORY_STEP_ENDS] = {"SELECT count(*) FROM steps", "SELECT start + duration FROM steps ORDER BY 1"},
};

static bool load(struct memory_instants *instants, struct store *store, enum memory_instant which)
{
	sqlite3_stmt *rows = store_prepare(store, instants_sql[which][0]);
	int64_t rows_count = rows && sqlite3_step(rows) == SQLITE_ROW ? sqlite3_column_int64(rows, 0) : 0;
	sqlite3_finalize(rows);
	size_t room = (size_t)rows_count, count = 0;
	int64_t *times = room ? memory_get(instants->memory, room * sizeof *times) : NULL;
	if (!room || !times)
		return !room;
	rows = store_prepare(store, instants_sql[which][1]);
	while (rows && count < room && !store_over(store) && sqlite3_step(rows) == SQLITE_ROW)
		times[count++] = sqlite3_column_int64(rows, 0);
	sqlite3_finalize(rows);
	/* The count stays that of the room, which memory_instants_deinit() gives back. */
	for (size_t i = count; i < room; i++)
		times[i] = INT64_MAX;
	instants->of[which].times = times;
	instants->of[which].count = room;
	return true;
}

bool memory_instants_load(struct memory_instants *ret, struct store *store)
{
	*ret = (struct memory_instants){.memory = store->memory};
	for (enum memory_instant which = 0; which < MEMORY_INSTANT_COUNT; which++)
		if (!load(ret, store, which)) {
			memory_instants_deinit(ret);
			return false;
		}
	return true;
}

void memory_instants_deinit(struct memory_instants *instants)
{
	for (enum memory_instant which = 0; which < MEMORY_INSTANT_COUNT; which++) {
		memory_put(instants->memory, instants->of[which].times, instants->of[which].count * sizeof(int64_t));
		instants->of[which].times = NULL;
		instants->of[which].count = 0;
	}
}

/* The nth instant, counted from 0, that is not before `time`; INT64_MAX: there is none. */
static int64_t instant_from(const struct memory_instants *instants, enum memory_instant which, int64_t time, size_t nth)
{
	const int64_t *times = instants->of[which].times;
	size_t low = 0, high = instants->of[which].count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (times[middle] < time)
			low = middle + 1;
		else
			high = middle;
	}
	return nth < instants->of[which].count - low ? times[low + nth] : INT64_MAX;
}

/* Does a block that lived until `until` outlive the next of these instants? If none follows in the capture: is the
 * block never given back? */
static bool outlives(const struct memory_instants *instants, enum memory_instant which, int64_t time, int64_t until)
{
	int64_t next = instant_from(instants, which, time, 0);
	return next == INT64_MAX ? until == INT64_MAX : until > next;
}

enum memory_use memory_use_of(const struct memory_instants *instants, const struct memory_call *call, int64_t time,
			      int64_t until)
{
	enum memory_phase phase = call ? call->phase : MEMORY_NO_PHASE;
	if (phase == MEMORY_OPTIMIZER)
		return outlives(instants, MEMORY_OPTIMIZER_ENDS, time, until) ? MEMORY_USE_OPTIMIZER_STATE
									      : MEMORY_USE_TEMPORARY;
	if (phase == MEMORY_BACKWARD)
		return outlives(instants, MEMORY_GRADIENTS_READ, time, until) ? MEMORY_USE_GRADIENTS
									      : MEMORY_USE_TEMPORARY;
	if (until > instant_from(instants, MEMORY_STEP_ENDS, time, STEPS_KEPT - 1))
		return MEMORY_USE_NOT_KNOWN;
	if (phase == MEMORY_LOADER && outlives(instants, MEMORY_LOADER_ENDS, time, until))
		return MEMORY_USE_INPUTS;
	if (call && call->brings && outlives(instants, MEMORY_GRADIENTS_READ, time, until))
		return MEMORY_USE_INPUTS;
	if (until > instant_from(instants, MEMORY_BACKWARD_BEGINS, time, 0))
		return MEMORY_USE_ACTIVATIONS;
	return until == INT64_MAX ? MEMORY_USE_NOT_KNOWN : MEMORY_USE_TEMPORARY;
}

const char *memory_use_word(enum memory_use use)
{
	static const char *const words[] = {
#define MEMORY_USE(NAME, word) word,
		MEMORY_USES(MEMORY_USE)
#undef MEMORY_USE
	};
	return words[use];
}
