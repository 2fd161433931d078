/* store.c - see store.h: what others may do with a store. file.c has the file itself. No locks. */
#include "store.h"
#include "file.h"
#include "finish.h"
#include "proto/version.h"

#include <errno.h>
#include <stdlib.h>

/* So many records wait to become rows, if the caller's transactions are longer. */
#define WAITING_MOST 65536

struct store *store_new(struct memory *memory)
{
	struct store *store = calloc(1, sizeof *store);
	if (store)
		store->memory = memory;
	return store;
}

static void gather(struct store *store)
{
	totals_init(&store->totals, store->memory);
	device_init(&store->device, store->folder, store->memory);
	store->gathers = true;
}

static void gather_no_more(struct store *store)
{
	store_batch_deinit(&store->waiting);
	if (!store->gathers)
		return;
	totals_deinit(&store->totals);
	device_deinit(&store->device);
	store->gathers = false;
}

void store_free(struct store *store)
{
	if (!store)
		return;
	store_close(store);
	file_leave(store);
	free(store);
}

int store_error(const struct store *store)
{
	return store->error;
}

const char *store_sentence(const struct store *store)
{
	return store->sentence;
}

int store_set_error(struct store *store, int error, const char *sentence)
{
	if (store->error)
		return store->error;
	store->error = error;
	text_copy(store->sentence, sizeof store->sentence, sentence);
	return error;
}

/* --- a file --- */

void store_temporary_folder(const char *folder_path)
{
	sqlite3_temp_directory = sqlite3_mprintf("%s", folder_path);
}

int store_create(struct store *store, int folder, const char *folder_path, uint64_t number)
{
	file_create(store, folder, folder_path, number);
	gather(store);
	return store->error;
}

int store_create_at(struct store *store, const char *path)
{
	file_create_at(store, path);
	gather(store);
	return store->error;
}

int store_open(struct store *store, int folder, const char *folder_path, uint64_t number)
{
	if (file_open(store, folder, folder_path, number) == 0)
		store->base = (uint64_t)store_get_int(store, "base_monotonic");
	gather(store);
	/* This process has not seen the rows that are there. */
	store_unordered(store);
	return store->error;
}

int store_schema(const struct store *store)
{
	return store->schema;
}

const char *store_path(const struct store *store)
{
	return store->path;
}

const char *store_partial_name(const struct store *store)
{
	return store->partial_name;
}

void store_rest(struct store *store)
{
	if (store->db)
		sqlite3_db_release_memory(store->db);
}

void store_close(struct store *store)
{
	gather_no_more(store);
	file_close(store);
}

void store_discard(struct store *store)
{
	gather_no_more(store);
	file_discard(store);
}

/* --- what goes into it --- */

int store_begin(struct store *store)
{
	return store_run(store, "BEGIN IMMEDIATE");
}

static void put_waiting(struct store *store)
{
	if (store->waiting_count)
		store_put_batch(store, &store->waiting);
	store_batch_clear(&store->waiting);
	store->waiting_count = 0;
}

int store_commit(struct store *store)
{
	put_waiting(store);
	store_batch_deinit(&store->waiting);
	/* The sums have seen rows that are not in the file. */
	if (store_run(store, "COMMIT")) {
		store_unordered(store);
		store_rollback(store);
	}
	return store->error;
}

int store_flush(struct store *store)
{
	/* If it fails for good, SQLite ends the transaction and tells the cause with the next statement. Otherwise the commit tries again. */
	if (!store->error && sqlite3_db_cacheflush(store->db) && !store_run(store, "SELECT count(*) FROM meta") &&
	    sqlite3_get_autocommit(store->db))
		store_set_error(store, -EIO, "the capture's file cannot be written");
	if (store->error)
		store_rollback(store);
	return store->error;
}

void store_rollback(struct store *store)
{
	store_batch_deinit(&store->waiting);
	store->waiting_count = 0;
	if (store->db && !sqlite3_get_autocommit(store->db))
		sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
}

int store_set_base(struct store *store, uint64_t monotonic, uint64_t realtime)
{
	store->base = monotonic;
	store_meta_int(store, "base_monotonic", (int64_t)monotonic);
	return store_meta_int(store, "base_realtime", (int64_t)(realtime & INT64_MAX));
}

uint64_t store_base(const struct store *store)
{
	return store->base;
}

int store_put_event(struct store *store, const union event_any *event)
{
	if (store->error)
		return store->error;
	int error = store_batch_add(&store->waiting, event);
	if (error) {
		store_unordered(store);
		return store_set_error(store, error,
				       error == -ENOMEM ? "out of memory" : "a record of an unknown kind");
	}
	totals_add(&store->totals, event);
	device_add(&store->device, store, event);
	if (++store->waiting_count >= WAITING_MOST)
		put_waiting(store);
	return store->error;
}

void store_chunk(struct store *store, uint32_t thread, uint32_t sequence)
{
	totals_chunk(&store->totals, thread, sequence);
}

void store_unordered(struct store *store)
{
	store->totals.incomplete = store->device.incomplete = true;
}

void store_expect_device(struct store *store)
{
	device_want(&store->device);
}

int store_put_string(struct store *store, uint32_t id, const char *text, size_t n)
{
	if (store->error)
		return store->error;
	sqlite3_bind_int64(store->insert_string, 1, id);
	sqlite3_bind_text(store->insert_string, 2, text, (int)n, SQLITE_STATIC);
	return store_step(store, store->insert_string);
}

int store_put_inputs(struct store *store, uint32_t id, const char *dims, const char *types, const char *strides,
		     const char *concrete)
{
	if (store->error)
		return store->error;
	sqlite3_bind_int64(store->insert_inputs, 1, id);
	sqlite3_bind_text(store->insert_inputs, 2, dims, -1, SQLITE_STATIC);
	sqlite3_bind_text(store->insert_inputs, 3, types, -1, SQLITE_STATIC);
	sqlite3_bind_text(store->insert_inputs, 4, strides, -1, SQLITE_STATIC);
	sqlite3_bind_text(store->insert_inputs, 5, concrete, -1, SQLITE_STATIC);
	return store_step(store, store->insert_inputs);
}

int store_put_ingested(struct store *store, uint32_t sequence)
{
	if (store->error)
		return store->error;
	sqlite3_bind_int64(store->insert_ingested, 1, sequence);
	return store_step(store, store->insert_ingested);
}

int store_meta_text(struct store *store, const char *key, const char *value)
{
	if (store->error)
		return store->error;
	sqlite3_bind_text(store->meta, 1, key, -1, SQLITE_STATIC);
	sqlite3_bind_text(store->meta, 2, value, -1, SQLITE_STATIC);
	return store_step(store, store->meta);
}

int store_meta_int(struct store *store, const char *key, int64_t value)
{
	if (store->error)
		return store->error;
	sqlite3_bind_text(store->meta, 1, key, -1, SQLITE_STATIC);
	sqlite3_bind_int64(store->meta, 2, value);
	return store_step(store, store->meta);
}

/* While the file is partial, capture_id and trigger_id are plain numbers in meta; store_finish's caller writes the
 * texts that users know. */
int store_put_facts(struct store *store, const struct capture_facts *facts)
{
	const struct identity *who = &facts->who;
	store_meta_int(store, "schema", CAPTURE_SCHEMA_VERSION);
	store_meta_text(store, "profd_version", PROFD_VERSION);
	store_meta_text(store, "agent_version", who->agent_version);
	store_meta_int(store, "capture_id", (int64_t)facts->number);
	store_meta_int(store, "trigger_id", (int64_t)facts->trigger);
	store_meta_int(store, "cycle", (int64_t)facts->cycle);
	store_meta_int(store, "pid", who->pid);
	store_meta_int(store, "agent_pid", who->agent_pid);
	store_meta_text(store, "pids", who->pids);
	store_meta_int(store, "uid", (int64_t)who->uid);
	store_meta_int(store, "start_time", (int64_t)who->start_time);
	store_meta_text(store, "host", who->host);
	store_meta_text(store, "name", who->name);
	store_meta_text(store, "command", who->command);
	store_meta_text(store, "job", who->job);
	store_meta_text(store, "launcher", who->launcher);
	if (who->rank >= 0)
		store_meta_int(store, "rank", who->rank);
	if (who->local_rank >= 0)
		store_meta_int(store, "local_rank", who->local_rank);
	if (who->world_size >= 0)
		store_meta_int(store, "world_size", who->world_size);
	store_meta_text(store, "torch_version", who->torch_version);
	store_meta_text(store, "label", facts->label);
	store_meta_int(store, "started", (int64_t)facts->started);
	return store_meta_int(store, "steps_wanted", (int64_t)facts->steps_wanted);
}

static sqlite3_stmt *meta_find(struct store *store, const char *key)
{
	sqlite3_stmt *statement = store_prepare(store, "SELECT value FROM meta WHERE key = ?");
	if (!statement)
		return NULL;
	sqlite3_bind_text(statement, 1, key, -1, SQLITE_STATIC);
	if (sqlite3_step(statement) == SQLITE_ROW)
		return statement;
	sqlite3_finalize(statement);
	return NULL;
}

int64_t store_get_int(struct store *store, const char *key)
{
	sqlite3_stmt *statement = meta_find(store, key);
	int64_t value = statement ? sqlite3_column_int64(statement, 0) : 0;
	sqlite3_finalize(statement);
	return value;
}

static int32_t get_small(struct store *store, const char *key)
{
	sqlite3_stmt *statement = meta_find(store, key);
	int32_t value = statement ? sqlite3_column_int(statement, 0) : -1;
	sqlite3_finalize(statement);
	return value;
}

void store_get_text(struct store *store, const char *key, char *to, size_t to_bytes)
{
	sqlite3_stmt *statement = meta_find(store, key);
	const char *text = statement ? (const char *)sqlite3_column_text(statement, 0) : NULL;
	text_copy(to, to_bytes, text ? text : "");
	sqlite3_finalize(statement);
}

int store_get_facts(struct store *store, struct capture_facts *ret)
{
	struct capture_facts facts = {0};
	struct identity *who = &facts.who;
	facts.number = (uint64_t)store_get_int(store, "capture_id");
	facts.trigger = (uint64_t)store_get_int(store, "trigger_id");
	facts.cycle = (uint64_t)store_get_int(store, "cycle");
	facts.steps_wanted = (uint64_t)store_get_int(store, "steps_wanted");
	facts.started = (uint64_t)store_get_int(store, "started");
	who->pid = (pid_t)store_get_int(store, "pid");
	who->agent_pid = (pid_t)store_get_int(store, "agent_pid");
	store_get_text(store, "pids", who->pids, sizeof who->pids);
	who->uid = (uid_t)store_get_int(store, "uid");
	who->start_time = (uint64_t)store_get_int(store, "start_time");
	who->rank = get_small(store, "rank");
	who->local_rank = get_small(store, "local_rank");
	who->world_size = get_small(store, "world_size");
	store_get_text(store, "host", who->host, sizeof who->host);
	store_get_text(store, "name", who->name, sizeof who->name);
	store_get_text(store, "command", who->command, sizeof who->command);
	store_get_text(store, "job", who->job, sizeof who->job);
	store_get_text(store, "launcher", who->launcher, sizeof who->launcher);
	store_get_text(store, "torch_version", who->torch_version, sizeof who->torch_version);
	store_get_text(store, "agent_version", who->agent_version, sizeof who->agent_version);
	store_get_text(store, "label", facts.label, sizeof facts.label);
	if (store->error)
		return store->error;
	if (facts.number == 0)
		return -EPROTO;
	*ret = facts;
	return 0;
}

bool store_has_ingested(struct store *store, uint32_t sequence)
{
	if (!store->find_ingested)
		store->find_ingested = store_prepare(store, "SELECT 1 FROM ingested WHERE sequence = ?");
	if (!store->find_ingested)
		return false;
	sqlite3_bind_int64(store->find_ingested, 1, sequence);
	bool has = sqlite3_step(store->find_ingested) == SQLITE_ROW;
	sqlite3_reset(store->find_ingested);
	return has;
}

int store_rename_whole(struct store *store, int folder, const char *folder_path, uint64_t number)
{
	return file_rename_whole(store, folder, folder_path, number);
}

/* --- names, the end --- */

void store_set_demangler(struct store *store, const struct store_demangler *demangler)
{
	store->demangler = demangler;
}

/* A count may be a hostile agent's: it is cut to what JSON can carry, which no capture can have lost. */
void store_count_lost(struct store_ending *ending, unsigned loss, unsigned kind, uint64_t count)
{
	uint64_t *lost = &ending->lost[loss][kind];
	*lost = (*lost < STORE_LOST_MOST ? *lost : STORE_LOST_MOST) +
		(count < STORE_LOST_MOST ? count : STORE_LOST_MOST);
}

int store_finish(struct store *store, struct store_ending *ending, struct capture_facts *facts,
		 const struct store_watch *watch, struct store_finished *ret)
{
	int error = finish_run(store, ending, facts, watch, ret);
	gather_no_more(store);
	return error;
}
