/* memory_viz.c - blocks of the framework's allocators as a memory snapshot of torch's (torch.cuda.memory._dump_snapshot()): a pickle that
 * pytorch.org/memory_viz and torch.cuda._memory_viz read. Each device has a trace of what was taken and given back, and segments with what
 * was held at the end. A CUDA device has torch's number; the others, the CPU among them, follow. Nothing tells profd the allocator's own
 * segments and streams: a segment here is a range of addresses in which blocks lie close together, the stream is 0. One thread. */
#include "memory_viz.h"
#include "snapshot.h"

#include "client/export/export.h"
#include "client/export/stream.h"
#include "client/ui/figure.h"
#include "proto/base/array.h"
#include "proto/events.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#define CUDA 1 /* c10::DeviceType */
#define DEVICES_MOST 64
/* Elements that a reader adds to a list in one go: torch's page can add some 100,000. */
#define PART 1000
/* Blocks that lie closer together are of one segment; torch's smallest is that large. */
#define SEGMENT_GAP (2ll << 20)
/* A block cannot lie beyond this address, or be larger than that. */
#define ADDRESS_MOST (1ll << 57)
#define BYTES_MOST (1ll << 50)

struct device {
	int64_t type, number, index;
};

struct held {
	int64_t address, end, time;
	struct snapshot_origin origin;
	char *text;
};

struct range {
	int64_t from, to;
};

struct writer {
	const struct reader *reader;
	struct snapshot snapshot;
	struct block *block;
	struct device devices[DEVICES_MOST];
	size_t device_count, devices_left_out;
	int64_t count, since, base; /* records in all; from which time on they are written; wall clock at time 0 */
	struct held *held;
	size_t held_count, held_room;
	struct range *ranges;
	size_t range_count, range_room;
};

export_write memory_viz_write;

#define ORIGIN_SQL                                                                                                     \
	"coalesce(o.name, r.name), (SELECT text FROM strings WHERE id = coalesce(o.name, r.name)), o.stack FROM b "    \
	"LEFT JOIN operators o ON o.id = b.parent LEFT JOIN ranges r ON r.id = b.parent "
#define OF_DEVICE "FROM framework_allocations WHERE device_type = ?1 AND device = ?2 "

static sqlite3_stmt *prepare(const struct writer *w, const struct device *device, const char *sql)
{
	sqlite3_stmt *statement = NULL;
	if (sqlite3_prepare_v2(w->reader->db, sql, -1, &statement, NULL) != SQLITE_OK)
		return NULL;
	if (device) {
		sqlite3_bind_int64(statement, 1, device->type);
		sqlite3_bind_int64(statement, 2, device->number);
	}
	return statement;
}

/* Calls each() for the rows. 0 or a negative errno. */
static int for_rows(struct writer *w, const struct device *device, sqlite3_stmt *row,
		    int (*each)(struct writer *, const struct device *, sqlite3_stmt *))
{
	int error = row ? 0 : -EIO, code = SQLITE_DONE;
	while (!error && (code = sqlite3_step(row)) == SQLITE_ROW)
		error = each(w, device, row);
	sqlite3_finalize(row);
	return error || code == SQLITE_DONE ? error : -EIO;
}

static struct snapshot_origin origin_of(sqlite3_stmt *row, int column, enum snapshot_label label)
{
	return (struct snapshot_origin){
		.label = label,
		.name = sqlite3_column_int64(row, column),
		.text = (const char *)sqlite3_column_text(row, column + 1),
		.stack = sqlite3_column_int64(row, column + 2),
	};
}

/* ---------------------------------------------------------------- devices */

static int add_device(struct writer *w, const struct device *unused, sqlite3_stmt *row)
{
	(void)unused;
	int64_t next = w->device_count ? w->devices[w->device_count - 1].index + 1 : 0;
	struct device device = {sqlite3_column_int64(row, 0), sqlite3_column_int64(row, 1), next};
	if (w->device_count == DEVICES_MOST) {
		w->devices_left_out++;
		return 0;
	}
	if (device.type == CUDA && device.number >= next && device.number < DEVICES_MOST)
		device.index = device.number;
	w->devices[w->device_count++] = device;
	return 0;
}

/* ---------------------------------------------------------------- the trace */

static void put_event(struct writer *w, enum snapshot_word action, int64_t address, int64_t bytes, int64_t time,
		      const struct snapshot_origin *origin)
{
	struct snapshot *s = &w->snapshot;
	pickle_dict(&s->pickle);
	snapshot_words(s, WORD_ACTION, action);
	snapshot_int(s, WORD_ADDR, address);
	snapshot_int(s, WORD_SIZE, bytes);
	snapshot_int(s, WORD_STREAM, 0);
	snapshot_int(s, WORD_TIME, (w->base + time) / 1000);
	snapshot_frames(s, origin);
	pickle_dict_end(&s->pickle);
	if (++w->count % PART == 0) {
		pickle_list_end(&s->pickle);
		pickle_more(&s->pickle);
	}
}

static void put_end(struct writer *w, int64_t address, int64_t bytes, int64_t time,
		    const struct snapshot_origin *origin)
{
	put_event(w, WORD_REQUESTED, address, bytes, time, origin);
	put_event(w, WORD_COMPLETED, address, bytes, time, origin);
}

/* 0: none before it in what is written. */
enum { BEFORE_NONE = 0 };

static int add_event(struct writer *w, const struct device *device, sqlite3_stmt *row)
{
	(void)device;
	int64_t time = figure_time(sqlite3_column_int64(row, 0)), address = sqlite3_column_int64(row, 1);
	int64_t bytes = sqlite3_column_int64(row, 2), before = sqlite3_column_int64(row, 4);
	int64_t bytes_before = sqlite3_column_int64(row, 5);
	bool is_taken = sqlite3_column_int64(row, 3) == ALLOCATION_TAKEN;
	enum snapshot_label label = LABEL_NONE;
	if (is_taken && before == ALLOCATION_TAKEN) {
		struct snapshot_origin lost = {.label = LABEL_NO_END};
		put_end(w, address, bytes_before, time, &lost);
	}
	if (!is_taken && before == BEFORE_NONE)
		label = w->since > 0 ? LABEL_LEFT_OUT : LABEL_OLDER;
	else if (!is_taken && before == ALLOCATION_GIVEN_BACK)
		label = LABEL_NO_BEGIN;
	struct snapshot_origin origin = origin_of(row, 6, label);
	if (is_taken)
		put_event(w, WORD_ALLOC, address, bytes, time, &origin);
	else
		put_end(w, address, before == ALLOCATION_TAKEN ? bytes_before : bytes, time, &origin);
	return block_flush_full(w->block);
}

static int put_trace(struct writer *w, const struct device *device)
{
	sqlite3_stmt *row = prepare(
		w, device,
		"WITH b AS (SELECT rowid AS n, time, address, bytes, operation, parent, lag(operation) OVER w AS "
		"before, lag(bytes) OVER w AS bytes_before " OF_DEVICE "AND time >= ?3 WINDOW w AS (PARTITION BY "
		"address ORDER BY time, rowid)) SELECT b.time, b.address, b.bytes, b.operation, b.before, "
		"b.bytes_before, " ORIGIN_SQL "ORDER BY b.time, b.n");
	if (row)
		sqlite3_bind_int64(row, 3, w->since);
	pickle_list(&w->snapshot.pickle);
	int error = for_rows(w, device, row, add_event);
	pickle_list_end(&w->snapshot.pickle);
	return error;
}

static int put_traces(struct writer *w)
{
	struct pickle *p = &w->snapshot.pickle;
	int64_t next = 0;
	int error = 0;
	pickle_text(p, "device_traces");
	pickle_list(p);
	for (size_t i = 0; i < w->device_count && !error; i++) {
		for (; next < w->devices[i].index; next++) {
			pickle_list(p);
			pickle_list_end(p);
		}
		error = put_trace(w, &w->devices[i]);
		next++;
	}
	pickle_list_end(p);
	return error;
}

/* ---------------------------------------------------------------- segments */

/* An address and bytes; 1 byte where they are not known. False: it is wild. */
static bool range_of(sqlite3_stmt *row, struct range *ret)
{
	int64_t address = sqlite3_column_int64(row, 0), bytes = sqlite3_column_int64(row, 1);
	if (address < 0 || address > ADDRESS_MOST || bytes < 0 || bytes > BYTES_MOST)
		return false;
	*ret = (struct range){address, address + (bytes ? bytes : 1)};
	return true;
}

/* Where records were lost a block may seem to be held that has long gone: of two that overlap the later one stays. */
static int add_held(struct writer *w, const struct device *device, sqlite3_stmt *row)
{
	struct range range;
	(void)device;
	if (!range_of(row, &range))
		return 0;
	struct held held = {.address = range.from, .end = range.to, .time = sqlite3_column_int64(row, 2)};
	while (w->held_count && w->held[w->held_count - 1].end > held.address) {
		if (w->held[w->held_count - 1].time > held.time)
			return 0;
		free(w->held[--w->held_count].text);
	}
	if (!ARRAY_GROW(w->held, w->held_count, w->held_room))
		return -ENOMEM;
	held.origin = origin_of(row, 3, LABEL_NONE);
	held.text = held.origin.text ? strdup(held.origin.text) : NULL;
	if (held.origin.text && !held.text)
		return -ENOMEM;
	held.origin.text = held.text;
	w->held[w->held_count++] = held;
	return 0;
}

static int add_range(struct writer *w, const struct device *device, sqlite3_stmt *row)
{
	struct range range, *last = w->range_count ? &w->ranges[w->range_count - 1] : NULL;
	(void)device;
	if (!range_of(row, &range))
		return 0;
	if (last && range.from <= last->to + SEGMENT_GAP) {
		last->to = last->to > range.to ? last->to : range.to;
		return 0;
	}
	if (!ARRAY_GROW(w->ranges, w->range_count, w->range_room))
		return -ENOMEM;
	w->ranges[w->range_count++] = range;
	return 0;
}

static void put_block(struct writer *w, int64_t bytes, const struct snapshot_origin *origin)
{
	struct snapshot *s = &w->snapshot;
	pickle_dict(&s->pickle);
	snapshot_int(s, WORD_SIZE, bytes);
	snapshot_words(s, WORD_STATE, origin ? WORD_ACTIVE : WORD_INACTIVE);
	snapshot_int(s, WORD_REQUESTED_SIZE, origin ? bytes : 0);
	if (origin)
		snapshot_frames(s, origin);
	pickle_dict_end(&s->pickle);
}

/* The part of a segment that is always there; the list of its blocks follows. */
static void begin_segment(struct writer *w, const struct device *device, const struct range *range, int64_t held)
{
	struct snapshot *s = &w->snapshot;
	pickle_dict(&s->pickle);
	snapshot_int(s, WORD_DEVICE, device->index);
	snapshot_int(s, WORD_ADDRESS, range->from);
	snapshot_int(s, WORD_TOTAL_SIZE, range->to - range->from);
	snapshot_int(s, WORD_ALLOCATED_SIZE, held);
	snapshot_int(s, WORD_ACTIVE_SIZE, held);
	snapshot_int(s, WORD_REQUESTED_SIZE, held);
	snapshot_int(s, WORD_STREAM, 0);
	snapshot_words(s, WORD_SEGMENT_TYPE, WORD_LARGE);
	snapshot_word(s, WORD_EXPANDABLE);
	pickle_false(&s->pickle);
	snapshot_word(s, WORD_BLOCKS);
	pickle_list(&s->pickle);
}

static void end_segment(struct writer *w)
{
	pickle_list_end(&w->snapshot.pickle);
	pickle_dict_end(&w->snapshot.pickle);
}

/* first: of the blocks held, the first that has not been written. */
static void put_segment(struct writer *w, const struct device *device, const struct range *range, size_t *first)
{
	int64_t held = 0, at = range->from;
	size_t end = *first;
	for (; end < w->held_count && w->held[end].end <= range->to; end++)
		held += w->held[end].end - w->held[end].address;
	begin_segment(w, device, range, held);
	for (; *first < end; ++*first) {
		const struct held *block = &w->held[*first];
		if (block->address > at)
			put_block(w, block->address - at, NULL);
		put_block(w, block->end - block->address, &block->origin);
		at = block->end;
		if (*first % PART == PART - 1) {
			pickle_list_end(&w->snapshot.pickle);
			pickle_more(&w->snapshot.pickle);
		}
	}
	if (at < range->to)
		put_block(w, range->to - at, NULL);
	end_segment(w);
}

/* The total that a device's allocator tells, less the known blocks, is one block of its own behind the others. */
static int add_older(struct writer *w, const struct device *device, sqlite3_stmt *row)
{
	int64_t rest = sqlite3_column_int64(row, 0), from = SEGMENT_GAP;
	struct snapshot_origin origin = {.label = LABEL_HELD};
	if (rest > BYTES_MOST)
		return 0;
	for (size_t i = 0; i < w->held_count; i++)
		rest -= w->held[i].end - w->held[i].address;
	if (rest <= 0)
		return 0;
	if (w->range_count)
		from = w->ranges[w->range_count - 1].to + 2 * SEGMENT_GAP;
	struct range range = {from, from + rest};
	begin_segment(w, device, &range, rest);
	put_block(w, rest, &origin);
	end_segment(w);
	return 0;
}

static void forget_held(struct writer *w)
{
	while (w->held_count)
		free(w->held[--w->held_count].text);
	w->range_count = 0;
}

static int put_device_segments(struct writer *w, const struct device *device)
{
	size_t first = 0;
	forget_held(w);
	int error = for_rows(
		w, device,
		prepare(w, device,
			"WITH b AS (SELECT time, address, bytes, operation, parent, lead(time) OVER (PARTITION BY address ORDER BY "
			"time, rowid) AS next " OF_DEVICE ") SELECT b.address, b.bytes, b.time, " ORIGIN_SQL
			"WHERE b.operation = 1 AND b.next IS NULL ORDER BY b.address, b.time"),
		add_held);
	if (!error)
		error = for_rows(
			w, device,
			prepare(w, device, "SELECT address, max(bytes) " OF_DEVICE "GROUP BY address ORDER BY address"),
			add_range);
	for (size_t i = 0; i < w->range_count && !error; i++) {
		put_segment(w, device, &w->ranges[i], &first);
		error = block_flush_full(w->block);
	}
	return error ? error
		     : for_rows(w, device,
				prepare(w, device,
					"SELECT total " OF_DEVICE
					"AND known & 2 ORDER BY time DESC, rowid DESC LIMIT 1"),
				add_older);
}

static int put_segments(struct writer *w)
{
	int error = 0;
	pickle_text(&w->snapshot.pickle, "segments");
	pickle_list(&w->snapshot.pickle);
	for (size_t i = 0; i < w->device_count && !error; i++)
		error = put_device_segments(w, &w->devices[i]);
	pickle_list_end(&w->snapshot.pickle);
	return error;
}

/* ---------------------------------------------------------------- the whole */

/* Which list is whose, and what the file lacks: readers leave a key that they do not know alone. */
static void put_notes(struct writer *w, int64_t records)
{
	struct pickle *p = &w->snapshot.pickle;
	pickle_text(p, "profd");
	pickle_dict(p);
	pickle_text(p, "records");
	pickle_int(p, records);
	pickle_text(p, "records_left_out");
	pickle_int(p, records > MEMORY_VIZ_RECORDS ? records - MEMORY_VIZ_RECORDS : 0);
	pickle_text(p, "records_lost");
	pickle_int(p, reader_count(w->reader,
				   "SELECT sum(count) FROM losses WHERE is_loss AND kind = 'framework_allocation'", 0));
	pickle_text(p, "devices_left_out");
	pickle_int(p, (int64_t)w->devices_left_out);
	pickle_text(p, "devices");
	pickle_dict(p);
	for (size_t i = 0; i < w->device_count; i++) {
		const struct device *device = &w->devices[i];
		char name[64];
		snprintf(name, sizeof name, device->type ? "device type %lld:%lld" : "cpu", (long long)device->type,
			 (long long)device->number);
		if (device->type == CUDA)
			snprintf(name, sizeof name, "cuda:%lld", (long long)device->number);
		pickle_int(p, device->index);
		pickle_text(p, name);
	}
	pickle_dict_end(p);
	pickle_dict_end(p);
}

static int put_all(struct writer *w)
{
	int64_t records = reader_count(w->reader, "SELECT count(*) FROM framework_allocations", 0);
	char sql[128];
	w->base = figure_time(reader_meta_int(w->reader, "base_realtime", 0));
	if (records > MEMORY_VIZ_RECORDS) {
		snprintf(sql, sizeof sql, "SELECT time FROM framework_allocations ORDER BY time DESC LIMIT 1 OFFSET %d",
			 MEMORY_VIZ_RECORDS - 1);
		w->since = reader_count(w->reader, sql, 0);
	}
	int error =
		for_rows(w, NULL,
			 prepare(w, NULL,
				 "SELECT DISTINCT device_type, device FROM framework_allocations ORDER BY device_type "
				 "<> 1, device_type = 0, device_type, device"),
			 add_device);
	pickle_dict(&w->snapshot.pickle);
	put_notes(w, records);
	if (!error)
		error = put_traces(w);
	if (!error)
		error = put_segments(w);
	pickle_dict_end(&w->snapshot.pickle);
	pickle_end(&w->snapshot.pickle);
	return error ? error : block_flush(w->block);
}

int memory_viz_write(struct reader *readers, size_t count, const struct export_options *options, struct stream *stream,
		     char *why, size_t why_bytes)
{
	struct writer w = {.reader = &readers[0], .block = stream_head(stream)};
	(void)count, (void)options;
	if (!reader_count(w.reader, "SELECT ran FROM collectors WHERE collector = 'allocations'", 0)) {
		snprintf(why, why_bytes,
			 "blocks of torch's allocators were not recorded: record them with `profd trigger --memory`");
		return -ENOTSUP;
	}
	int error = snapshot_init(&w.snapshot, w.reader, &w.block->text);
	if (!error)
		error = put_all(&w);
	if (error == -ENOMEM)
		snprintf(why, why_bytes, "there is no memory for the blocks");
	else if (error)
		reader_why(w.reader, why, why_bytes);
	forget_held(&w);
	free(w.held);
	free(w.ranges);
	snapshot_deinit(&w.snapshot);
	return error;
}
