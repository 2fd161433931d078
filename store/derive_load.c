/* derive_load.c - see derive_load.h. */
#include "derive_load.h"
#include "tables.h"

int derive_load(struct device *device, struct store *store)
{
	int folder = device->folder;
	struct memory *memory = device->memory;
	device_deinit(device);
	device_init(device, folder, memory);
	device_want(device);
	store_run(store, "DROP TABLE IF EXISTS temp.sums");
	for (unsigned kind = 0; kind < EVENT_KIND_COUNT; kind++) {
		if (!device_gathers(kind))
			continue;
		sqlite3_stmt *statement = store_select_events(store, kind);
		int code = SQLITE_DONE;
		while (statement && (code = sqlite3_step(statement)) == SQLITE_ROW) {
			union event_any event;
			device->rows[kind] = store_read_event(store, statement, kind, &event) - 1;
			device_add(device, store, &event);
		}
		if (statement && code != SQLITE_DONE)
			store_fail(store, "reading");
		sqlite3_finalize(statement);
	}
	return store->error;
}
