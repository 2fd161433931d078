/* chrome_head.c - what stands around the events of a Chrome trace: metadata as Kineto writes it, names of the tracks,
 * losses. Runs once, in the caller's thread. */
#include "chrome_head.h"
#include "proto/base/array.h"

#include "client/ui/figure.h"
#include "distributed.h"
#include "gpu.h"
#include "gpu_head.h"

#include <errno.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare_threads(const void *left, const void *right)
{
	const struct chrome_thread *a = left, *b = right;
	return ORDER(a->thread, b->thread);
}

const struct chrome_thread *chrome_thread(const struct chrome *c, uint32_t thread)
{
	const struct chrome_thread key = {.thread = thread};
	return c->thread_count ? bsearch(&key, c->threads, c->thread_count, sizeof key, compare_threads) : NULL;
}

/* All threads that the capture names, and all that ran something. */
int chrome_threads(struct chrome *c)
{
	int64_t named = reader_count(c->reader, "SELECT count(*) FROM threads WHERE rowid > -1", -1);
	if (named < 0 || named > bounds_rows(c->reader->bounds))
		return -EIO;
	size_t size = (size_t)named + c->nesting.track_count;
	struct chrome_thread *all = calloc(size ? size : 1, sizeof *all);
	sqlite3_stmt *statement = NULL;
	if (!all)
		return -ENOMEM;
	c->threads = all;
	/* A later record of a thread replaces what earlier ones said, where it says something. */
	if (sqlite3_prepare_v2(c->reader->db,
			       "SELECT thread, name, torch_id FROM threads ORDER BY thread & 0xffffffff, rowid", -1,
			       &statement, NULL) != SQLITE_OK)
		return -EIO;
	size_t count = 0;
	while (sqlite3_step(statement) == SQLITE_ROW && count < size) {
		uint32_t number = (uint32_t)sqlite3_column_int64(statement, 0);
		if (!count || all[count - 1].thread != number)
			all[count++] = (struct chrome_thread){.thread = number, .lanes = 1};
		if (sqlite3_column_int64(statement, 1))
			all[count - 1].name = sqlite3_column_int64(statement, 1);
		if (sqlite3_column_int64(statement, 2))
			all[count - 1].torch_id = (uint32_t)sqlite3_column_int64(statement, 2);
	}
	if (sqlite3_finalize(statement) != SQLITE_OK)
		return -EIO;
	c->thread_count = count;
	for (size_t i = 0; i < c->nesting.track_count; i++) {
		const struct nesting_track *ran = &c->nesting.tracks[i];
		if (!nesting_is_thread(ran->track))
			continue;
		const struct chrome_thread key = {.thread = (uint32_t)ran->track};
		struct chrome_thread *found = count ? bsearch(&key, all, count, sizeof key, compare_threads) : NULL;
		if (found)
			found->lanes = ran->lanes;
		else
			all[c->thread_count++] = (struct chrome_thread){.thread = key.thread, .lanes = ran->lanes};
	}
	qsort(all, c->thread_count, sizeof *all, compare_threads);
	return 0;
}

static void put_key(struct buffer *b, const char *key)
{
	BUFFER_PUT(b, "\"");
	buffer_put(b, key, strlen(key));
	BUFFER_PUT(b, "\": ");
}

static void put_meta_text(struct chrome *c, struct buffer *b, const char *key, const char *meta)
{
	const char *text = reader_meta_text(c->reader, meta);
	if (!text || !*text)
		return;
	put_key(b, key);
	buffer_put_string(b, text);
	BUFFER_PUT(b, ", ");
}

static void put_meta_number(struct chrome *c, struct buffer *b, const char *key, const char *meta)
{
	int64_t value = reader_meta_int(c->reader, meta, INT64_MIN);
	if (value == INT64_MIN)
		return;
	put_key(b, key);
	buffer_put_int(b, value);
	BUFFER_PUT(b, ", ");
}

/* [{"<column>": value, ...}, ...] of a query whose columns are named as the members. */
static void put_rows(struct chrome *c, struct buffer *b, const char *sql)
{
	sqlite3_stmt *statement;
	bool first = true;
	BUFFER_PUT(b, "[");
	if (sqlite3_prepare_v2(c->reader->db, sql, -1, &statement, NULL) == SQLITE_OK) {
		while (sqlite3_step(statement) == SQLITE_ROW) {
			buffer_put(b, first ? "{" : ", {", first ? 1 : 3);
			first = false;
			for (int i = 0; i < sqlite3_column_count(statement); i++) {
				if (i)
					BUFFER_PUT(b, ", ");
				put_key(b, sqlite3_column_name(statement, i));
				if (sqlite3_column_type(statement, i) == SQLITE_INTEGER)
					buffer_put_int(b, sqlite3_column_int64(statement, i));
				else
					buffer_put_string(b, (const char *)sqlite3_column_text(statement, i));
			}
			BUFFER_PUT(b, "}");
		}
		sqlite3_finalize(statement);
	}
	BUFFER_PUT(b, "]");
}

/* How the capture was made, and what is missing from it. */
static void put_profd(struct chrome *c, struct buffer *b)
{
	static const char *const texts[][2] = {
		{"capture_id", "capture_id"}, {"trigger_id", "trigger_id"},
		{"status", "status"},	      {"reason", "reason"},
		{"label", "label"},	      {"name", "name"},
		{"command", "command"},	      {"job", "job"},
		{"notes", "notes"},
	};
	static const char *const numbers[][2] = {
		{"pid", "pid"},
		{"step_before_ns", "step_before"},
		{"step_during_ns", "step_during"},
		{"late_steps", "late_steps"},
		{"other_thread_steps", "other_thread_steps"},
		{"events", "events"},
		{"lost", "lost"},
	};
	BUFFER_PUT(b, "{");
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		put_meta_text(c, b, texts[i][0], texts[i][1]);
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		put_meta_number(c, b, numbers[i][0], numbers[i][1]);
	if (reader_meta_int(c->reader, "simulated", 0))
		BUFFER_PUT(b, "\"simulated\": true, ");
	if (c->verdict) {
		BUFFER_PUT(b, "\n    \"verdict\": ");
		buffer_put(b, c->verdict, strlen(c->verdict));
		BUFFER_PUT(b, ",");
	}
	BUFFER_PUT(b, "\n    \"collectors\": ");
	put_rows(c, b, "SELECT collector, wanted, ran, sentence FROM collectors");
	BUFFER_PUT(b, ",\n    \"losses\": ");
	put_rows(c, b, "SELECT kind, loss, count, is_loss, sentence FROM losses WHERE count > 0");
	BUFFER_PUT(b, "}");
}

static void put_all_profd(struct chrome *const *all, size_t count, struct buffer *b)
{
	BUFFER_PUT(b, "  \"profd\": ");
	put_profd(all[0], b);
	for (size_t i = 1; i < count; i++) {
		if (i == 1)
			BUFFER_PUT(b, ",\n  \"profd_others\": [");
		else
			BUFFER_PUT(b, ",\n    ");
		put_profd(all[i], b);
	}
	if (count > 1)
		BUFFER_PUT(b, "]");
	BUFFER_PUT(b, ",\n");
}

static void put_track(const struct chrome *c, struct buffer *b, const char *record, int64_t tid)
{
	BUFFER_PUT(b, ",\n{\"ph\": \"M\", \"name\": \"");
	buffer_put(b, record, strlen(record));
	BUFFER_PUT(b, "\", \"ts\": 0.000, \"pid\": ");
	buffer_put_int(b, c->pid);
	BUFFER_PUT(b, ", \"tid\": ");
	buffer_put_int(b, tid);
	BUFFER_PUT(b, ", \"args\": {");
}

static void put_thread(const struct chrome *c, struct buffer *b, const struct chrome_thread *thread, unsigned lane)
{
	int64_t tid = chrome_track(thread->thread, lane);
	put_track(c, b, "thread_name", tid);
	BUFFER_PUT(b, "\"name\": \"thread ");
	if (thread->thread)
		buffer_put_uint(b, thread->thread);
	else
		BUFFER_PUT(b, "not known");
	if (thread->name) {
		BUFFER_PUT(b, " (");
		names_put(&c->names, b, thread->name);
		BUFFER_PUT(b, ")");
	}
	if (lane)
		BUFFER_PUT(b, ", overlapping");
	if (lane > 1) {
		BUFFER_PUT(b, " ");
		buffer_put_uint(b, lane);
	}
	BUFFER_PUT(b, "\"}}");
	put_track(c, b, "thread_sort_index", tid);
	BUFFER_PUT(b, "\"sort_index\": ");
	buffer_put_uint(b, thread->thread);
	BUFFER_PUT(b, "}}");
}

void chrome_settle_place(struct chrome *c)
{
	c->place_bytes = (size_t)snprintf(c->place, sizeof c->place, "\",\"pid\":%" PRId64 ",\"tid\":", c->pid);
}

void chrome_put_head(struct chrome *const *all, size_t count, struct buffer *b)
{
	struct chrome *c = all[0];
	struct reader *r = c->reader;
	BUFFER_PUT(b, "{\n  \"schemaVersion\": 1,\n  ");
	gpu_put_properties(c, b);
	distributed_put(c, b);
	/* Kineto's is random; ours names the capture: the same in every export of it. */
	BUFFER_PUT(b, "\"trace_id\": \"");
	buffer_put_hex(b, (uint64_t)reader_meta_int(r, "base_realtime", 0), 16);
	buffer_put_hex(b, (uint64_t)c->pid << 32 ^ (uint64_t)reader_meta_int(r, "cycle", 0), 16);
	BUFFER_PUT(b, "\", ");
	put_meta_text(c, b, "host_name", "host");
	put_meta_text(c, b, "torch_version", "torch_version");
	put_meta_text(c, b, "profd_version", "profd_version");
	gpu_put_versions(c, b);
	BUFFER_PUT(b, "\"with_stack\": ");
	buffer_put_int(b, c->functions.count > 0);
	BUFFER_PUT(b, ", \"record_shapes\": ");
	buffer_put_int(b, reader_count(r, "SELECT EXISTS (SELECT 1 FROM inputs)", 0));
	BUFFER_PUT(b, ",\n");
	put_all_profd(all, count, b);
	BUFFER_PUT(b, "  \"displayTimeUnit\": \"ms\",\n  \"baseTimeNanoseconds\": ");
	buffer_put_int(b, figure_time(reader_meta_int(r, "base_realtime", 0)) + c->origin);
	BUFFER_PUT(b, ",\n  \"traceEvents\": [");
}

/* Ranks are told apart by what viewers show beside the process's name. */
static void put_labels(const struct chrome *c, struct buffer *b)
{
	int64_t rank = reader_meta_int(c->reader, "rank", -1);
	put_track(c, b, "process_labels", 0);
	BUFFER_PUT(b, "\"labels\": \"CPU");
	if (reader_meta_int(c->reader, "simulated", 0))
		BUFFER_PUT(b, ", simulated");
	if (c->several && rank >= 0) {
		BUFFER_PUT(b, ", rank ");
		buffer_put_int(b, rank);
	}
	BUFFER_PUT(b, "\"}}");
}

void chrome_put_tracks(struct chrome *c, struct buffer *b)
{
	struct reader *r = c->reader;
	size_t comma = b->used;
	put_track(c, b, "process_name", 0);
	const char *name = reader_meta_text(r, "name");
	put_key(b, "name");
	buffer_put_string(b, name && *name ? name : reader_meta_text(r, "command"));
	BUFFER_PUT(b, "}}");
	if (!b->failed && c->index == 0)
		b->bytes[comma] = ' '; /* the first event follows no other */
	put_labels(c, b);
	put_track(c, b, "process_sort_index", 0);
	BUFFER_PUT(b, "\"sort_index\": ");
	buffer_put_int(b, c->pid);
	BUFFER_PUT(b, "}}");
	for (size_t i = 0; i < c->thread_count; i++)
		for (unsigned lane = 0; lane < c->threads[i].lanes; lane++)
			put_thread(c, b, &c->threads[i], lane);
	gpu_put_tracks(c, b);
}

static void put_warning(const struct chrome *c, struct buffer *b, const char *text, int64_t time)
{
	BUFFER_PUT(b, ",\n{\"ph\": \"i\", \"s\": \"g\", \"cat\": \"profd\", \"name\": ");
	buffer_put_string(b, text);
	BUFFER_PUT(b, ", \"pid\": ");
	buffer_put_int(b, c->pid);
	BUFFER_PUT(b, ", \"tid\": ");
	buffer_put_int(b, c->pid);
	BUFFER_PUT(b, ", \"ts\": ");
	buffer_put_micros(b, time - c->origin);
	BUFFER_PUT(b, "}");
}

void chrome_put_warnings(struct chrome *c, struct buffer *b)
{
	struct buffer text = {0};
	int64_t end = figure_time(reader_meta_int(c->reader, "record_end", 0));
	int64_t lost = reader_count(c->reader, "SELECT sum(count) FROM losses WHERE is_loss <> 0", 0);
	const char *status = reader_meta_text(c->reader, "status"), *reason = reader_meta_text(c->reader, "reason");
	if (lost > 0) {
		BUFFER_PUT(&text, "profd: ");
		buffer_put_int(&text, lost);
		BUFFER_PUT(&text, " events were dropped; see \"profd\" in the metadata");
		buffer_put(&text, "", 1);
		if (!text.failed)
			put_warning(c, b, text.bytes, end);
	}
	if (status && strcmp(status, "complete") != 0) {
		text.used = 0;
		BUFFER_PUT(&text, "profd: the capture is ");
		buffer_put(&text, status, strlen(status));
		if (reason && *reason) {
			BUFFER_PUT(&text, ": ");
			buffer_put(&text, reason, strlen(reason));
		}
		buffer_put(&text, "", 1);
		if (!text.failed)
			put_warning(c, b, text.bytes, end);
	}
	const char *notes = reader_meta_text(c->reader, "notes");
	for (const char *at = notes ? notes : ""; *at; at += strcspn(at, "\n"), at += *at == '\n') {
		text.used = 0;
		BUFFER_PUT(&text, "profd: ");
		buffer_put(&text, at, strcspn(at, "\n"));
		buffer_put(&text, "", 1);
		if (!text.failed)
			put_warning(c, b, text.bytes, end);
	}
	b->failed |= text.failed;
	buffer_deinit(&text);
}
