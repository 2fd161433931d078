/* derive.c - see derive.h. No locks. */
#include "derive.h"
#include "derive_boundaries.h"
#include "derive_collectives.h"
#include "derive_launches.h"
#include "derive_load.h"
#include "derive_memory.h"
#include "derive_modules.h"
#include "derive_stacks.h"
#include "derive_totals.h"
#include "place.h"
#include "proto/limits.h"

#include <stdlib.h>
#include <string.h>

/* Each thread keeps one row: of each column the last value that is not empty. */
static int merge_threads(struct store *store)
{
	return store_run(
		store,
		"CREATE TEMP TABLE merged (thread INTEGER PRIMARY KEY, pthread INTEGER, name INTEGER, torch_id "
		"INTEGER);"
		"INSERT INTO merged SELECT thread, pthread, name, torch_id FROM threads WHERE true ORDER BY rowid "
		"ON CONFLICT (thread) DO UPDATE SET name = coalesce(excluded.name, name), "
		"pthread = CASE excluded.pthread WHEN 0 THEN pthread ELSE excluded.pthread END, "
		"torch_id = CASE excluded.torch_id WHEN 0 THEN torch_id ELSE excluded.torch_id END;"
		"DELETE FROM threads;"
		"INSERT INTO threads (flags, thread, pthread, name, torch_id) SELECT 0, thread, pthread, name, "
		"torch_id FROM merged;"
		"DROP TABLE merged");
}

static bool any_row(struct store *store, const char *sql)
{
	sqlite3_stmt *statement = store_prepare(store, sql);
	bool any = statement && sqlite3_step(statement) == SQLITE_ROW;
	sqlite3_finalize(statement);
	return any;
}

/* Places rows that had no step when they were written: by their call where a device was recorded, and by their time. */
static void derive_rest(struct store *store, struct device *device, bool cupti, const struct boundaries *boundaries,
			struct derived *derived)
{
	struct launches found = {0};
	struct notes notes = {0};
	store_doing(store, "finding what launched what");
	if (cupti && device->incomplete)
		derive_load(device, store);
	if (cupti)
		launches_run(store, device, boundaries, &found);
	found.removed += place_by_time(store);
	derive_stacks(store, cupti);
	struct numbered taken;
	derived->blocks_left = !derive_memory(store, &taken);
	derive_modules(store, cupti, derived->blocks_left ? NULL : &taken);
	numbered_deinit(&taken);
	derived->collectives_left = !derive_collectives(store);
	if (cupti)
		notes_find(&notes, store);
	derived->rest_failed = store->error != 0;
	derived->cupti = cupti;
	derived->mangled = found.mangled;
	/* The importer does not know what a foreign trace leaves out. */
	derived->bare = any_row(store, "SELECT 1 FROM sessions") ? found.bare : 0;
	derived->notes = notes;
	derived->events -= found.removed < derived->events ? found.removed : derived->events;
	memcpy(derived->doubtful, found.doubtful, sizeof derived->doubtful);
	memcpy(derived->unlaunched, found.unlaunched, sizeof derived->unlaunched);
	memcpy(derived->earlier, found.earlier, sizeof derived->earlier);
}

int derive_nothing(struct store *store, const struct totals *totals, struct derived *ret)
{
	struct boundaries boundaries = {0};
	struct derived derived = {.unordered = true};
	store_begin(store);
	boundaries_load(&boundaries, store);
	derived.steps = boundaries.count;
	derived.step_ns = boundaries_median(&boundaries);
	free(boundaries.steps);
	derived.events = totals->events ? totals->events : store_count_events(store);
	store_run(store, "DROP TABLE IF EXISTS ingested");
	*ret = derived;
	return store->error;
}

int derive_run(struct store *store, struct totals *totals, struct device *device, bool cupti_ran, bool full,
	       const char *no_rest, struct derived *ret)
{
	struct boundaries boundaries = {0};
	struct derived derived = {0};
	totals_end(totals);
	store_begin(store);
	boundaries_load(&boundaries, store);
	derived.steps = boundaries.count;
	derived.step_ns = boundaries_median(&boundaries);
	store_doing(store, "putting records into their steps");
	if (!full)
		place_stated(store, totals, &boundaries, &derived.moved);
	store_doing(store, "adding up operators and ranges");
	derive_totals(store, totals);
	derived.events = totals->incomplete ? store_count_events(store) : totals->events;
	merge_threads(store);
	store_run(store, "DROP TABLE ingested");
	derived.simulated =
		any_row(store, "SELECT 1 FROM strings WHERE id IN (SELECT name FROM device_records) AND "
			       "substr(text, 1, length('" SIMULATED_DEVICE "')) = '" SIMULATED_DEVICE "' LIMIT 1");
	_Static_assert(COLLECTOR_CUPTI == 4, "as the statement below has it");
	bool cupti = cupti_ran || device->operations ||
		     any_row(store, "SELECT 1 FROM sessions UNION ALL SELECT 1 FROM steps WHERE collectors & 16 "
				    "UNION ALL SELECT 1 FROM kernel_records LIMIT 1");
	if (!store->error && !no_rest)
		derive_rest(store, device, cupti, &boundaries, &derived);
	else if (no_rest && (cupti || !full))
		text_copy(derived.trouble, sizeof derived.trouble, no_rest);
	free(boundaries.steps);
	*ret = derived;
	return store->error;
}
