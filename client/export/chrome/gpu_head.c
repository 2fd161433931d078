/* gpu_head.c - the devices in a trace's metadata, and the names and places of their tracks. Runs once, in the caller's
 * thread. */
#include "gpu_head.h"

#include "event.h"
#include "gpu.h"

#include <sqlite3.h>

/* Kineto sorts devices behind all processes. */
#define DEVICE_SORT_INDEX 5000000

static void put_fact(struct buffer *b, const char *key, int64_t value)
{
	if (value <= 0)
		return;
	BUFFER_PUT(b, ", \"");
	buffer_put(b, key, strlen(key));
	BUFFER_PUT(b, "\": ");
	buffer_put_int(b, value);
}

void gpu_put_properties(const struct chrome *c, struct buffer *b)
{
	bool first = true;
	BUFFER_PUT(b, "\"deviceProperties\": [");
	for (size_t i = 0; i < c->devices.count; i++) {
		const struct device *d = &c->devices.all[i];
		if (!d->described)
			continue;
		if (!first)
			BUFFER_PUT(b, ",");
		first = false;
		BUFFER_PUT(b, "\n    {\"id\": ");
		buffer_put_int(b, d->id);
		BUFFER_PUT(b, ", \"name\": \"");
		names_put(&c->names, b, d->name);
		BUFFER_PUT(b, "\"");
		put_fact(b, "totalGlobalMem", d->memory);
		put_fact(b, "computeMajor", d->limits.capability_major);
		BUFFER_PUT(b, ", \"computeMinor\": ");
		buffer_put_int(b, d->limits.capability_minor);
		put_fact(b, "maxThreadsPerBlock", d->max_threads_block);
		put_fact(b, "maxThreadsPerMultiprocessor", d->limits.max_threads);
		put_fact(b, "regsPerBlock", d->registers_block);
		put_fact(b, "warpSize", d->limits.warp);
		put_fact(b, "sharedMemPerBlock", d->limits.shared_block);
		put_fact(b, "numSms", d->limits.multiprocessors);
		put_fact(b, "regsPerMultiprocessor", d->limits.registers);
		put_fact(b, "sharedMemPerBlockOptin", occupancy_shared_most(&d->limits));
		put_fact(b, "sharedMemPerMultiprocessor", d->limits.shared);
		BUFFER_PUT(b, "}");
	}
	BUFFER_PUT(b, "],\n  ");
}

void gpu_put_versions(const struct chrome *c, struct buffer *b)
{
	static const char *const keys[] = {"cupti_version", "cuda_runtime_version", "cuda_driver_version"};
	sqlite3_stmt *row;
	/* A trace that was imported has no session. */
	if (c->schema < 2 ||
	    sqlite3_prepare_v2(
		    c->reader->db,
		    "SELECT * FROM (SELECT cupti_version, runtime_version, driver_version FROM sessions ORDER BY rowid DESC LIMIT 1) "
		    "UNION ALL SELECT (SELECT value FROM meta WHERE key = 'cupti_version'), (SELECT value FROM meta WHERE "
		    "key = 'runtime_version'), (SELECT value FROM meta WHERE key = 'driver_version')",
		    -1, &row, NULL) != SQLITE_OK)
		return;
	if (sqlite3_step(row) == SQLITE_ROW)
		for (int i = 0; i < 3; i++)
			if (sqlite3_column_int64(row, i) > 0) {
				BUFFER_PUT(b, "\"");
				buffer_put(b, keys[i], strlen(keys[i]));
				BUFFER_PUT(b, "\": ");
				buffer_put_int(b, sqlite3_column_int64(row, i));
				BUFFER_PUT(b, ", ");
			}
	sqlite3_finalize(row);
}

static void put_process(const struct chrome *c, struct buffer *b, uint32_t device, bool simulated)
{
	int64_t process = chrome_device_process(c, device), rank = reader_meta_int(c->reader, "rank", -1);
	event_metadata(b, "process_name", "name", process, 0);
	const char *name = reader_meta_text(c->reader, "name");
	buffer_put_string(b, name && *name ? name : reader_meta_text(c->reader, "command"));
	BUFFER_PUT(b, "}}");
	event_metadata(b, "process_labels", "labels", process, 0);
	BUFFER_PUT(b, "\"GPU ");
	buffer_put_int(b, device);
	if (simulated)
		BUFFER_PUT(b, " (simulated)");
	if (c->several && rank >= 0) {
		BUFFER_PUT(b, ", rank ");
		buffer_put_int(b, rank);
	}
	BUFFER_PUT(b, "\"}}");
	event_metadata(b, "process_sort_index", "sort_index", process, 0);
	buffer_put_int(b, DEVICE_SORT_INDEX + process);
	BUFFER_PUT(b, "}}");
}

static void put_track(const struct chrome *c, struct buffer *b, uint64_t track, unsigned lane)
{
	uint32_t stream = (uint32_t)track;
	int64_t process = gpu_process(c, track), number = gpu_track(track, lane), name = 0;
	bool waits = (track & NESTING_WAITS) != 0, own = (track & NESTING_OWN) != 0,
	     all = waits && stream == UINT32_MAX;
	event_metadata(b, "thread_name", "name", process, number);
	BUFFER_PUT(b, "\"");
	if (own) {
		BUFFER_PUT(b, "CUPTI's own work");
	} else if (all) {
		BUFFER_PUT(b, "Device ");
		buffer_put_int(b, nesting_device(track));
		BUFFER_PUT(b, " ");
	} else {
		BUFFER_PUT(b, "stream ");
		buffer_put_uint(b, stream);
		BUFFER_PUT(b, " "); /* as Kineto writes it */
		name = devices_stream_name(&c->devices, nesting_device(track), stream);
	}
	if (name) {
		BUFFER_PUT(b, "(");
		names_put(&c->names, b, name);
		BUFFER_PUT(b, ")");
	}
	if (waits)
		BUFFER_PUT(b, "waits");
	if (lane) {
		BUFFER_PUT(b, ", overlapping ");
		buffer_put_uint(b, lane);
	}
	BUFFER_PUT(b, "\"}}");
	event_metadata(b, "thread_sort_index", "sort_index", process, number);
	buffer_put_int(b, own ? number : all ? -1 : (int64_t)stream);
	BUFFER_PUT(b, "}}");
}

void gpu_put_tracks(const struct chrome *c, struct buffer *b)
{
	bool simulated = reader_meta_int(c->reader, "simulated", 0) != 0;
	for (size_t i = 0; i < c->devices.count; i++)
		if (c->devices.all[i].used && slice_device(c->part, c->devices.all[i].id))
			put_process(c, b, c->devices.all[i].id, simulated);
	for (size_t i = 0; i < c->nesting.track_count; i++) {
		const struct nesting_track *track = &c->nesting.tracks[i];
		if (!(track->track & NESTING_OWN) && !nesting_is_thread(track->track) &&
		    !slice_device(c->part, nesting_device(track->track)))
			continue;
		for (unsigned lane = 0; lane < track->lanes && !nesting_is_thread(track->track); lane++)
			put_track(c, b, track->track, lane);
	}
}
