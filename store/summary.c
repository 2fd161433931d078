/* summary.c - see summary.h. No locks. */
#include "summary.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 512
/* The row around the summary has the capture's own fields, and must fit into one packet. */
#define SUMMARY_BYTES 49152

static void add_name(cJSON *row, sqlite3_stmt *statement, int column)
{
	char name[NAME_BYTES];
	const char *text = (const char *)sqlite3_column_text(statement, column);
	text_copy(name, sizeof name, text ? text : "");
	size_t n = strlen(name);
	/* A cut must not leave half a character. */
	while (n == sizeof name - 1 && n && ((unsigned char)name[n - 1] & 0xc0) == 0x80)
		name[--n] = 0;
	if (n == sizeof name - 1 || (n && ((unsigned char)name[n - 1] & 0xc0) == 0xc0))
		name[n - 1] = 0;
	cJSON_AddStringToObject(row, "name", name);
}

static void add_number(cJSON *row, const char *key, sqlite3_stmt *statement, int column)
{
	if (sqlite3_column_type(statement, column) == SQLITE_NULL)
		cJSON_AddNullToObject(row, key);
	else
		cJSON_AddNumberToObject(row, key, (double)sqlite3_column_int64(statement, column));
}

static void add_count(cJSON *object, const char *key, struct store *store, const char *sql)
{
	sqlite3_stmt *statement = store_prepare(store, sql);
	double count =
		statement && sqlite3_step(statement) == SQLITE_ROW ? (double)sqlite3_column_int64(statement, 0) : 0;
	sqlite3_finalize(statement);
	cJSON_AddNumberToObject(object, key, count);
}

/* A step in which the GPU was not recorded has no figures of the GPU. */
static void add_steps(cJSON *object, struct store *store, bool cupti, uint64_t refused)
{
	static const char *const keys[] = {"step",    "number", "wall_ns",	 "device_busy_ns",
					   "kernels", "copies", "largest_gap_ns"};
	cJSON *rows = cJSON_AddArrayToObject(object, "steps");
	sqlite3_stmt *statement = store_prepare(
		store,
		"SELECT s.step, s.number, s.duration, CASE WHEN on_ THEN total(busy) END, CASE WHEN on_ THEN "
		"total(kernels) END, CASE WHEN on_ AND NOT ?2 THEN total(copies) END, max(gap) FROM (SELECT *, ?1 AND "
		"collectors & 16 AS on_ FROM steps ORDER BY step LIMIT 100) s LEFT JOIN step_devices d ON d.step = "
		"s.step AND d.stream = -1 AND on_ GROUP BY s.step ORDER BY s.step");
	if (statement)
		sqlite3_bind_int(statement, 1, cupti);
	if (statement)
		sqlite3_bind_int(statement, 2, (refused & 1ull << ACTIVITY_COPY) != 0);
	while (statement && sqlite3_step(statement) == SQLITE_ROW) {
		cJSON *row = cJSON_CreateObject();
		for (int i = 0; i < (int)(sizeof keys / sizeof *keys); i++)
			add_number(row, keys[i], statement, i);
		cJSON_AddItemToArray(rows, row);
	}
	sqlite3_finalize(statement);
	add_count(object, "steps_total", store, "SELECT count(*) FROM steps");
	add_count(object, "wall_ns", store, "SELECT CAST(total(duration) AS INTEGER) FROM steps");
	add_count(object, "devices", store, "SELECT count(DISTINCT device) FROM step_devices");
}

/* Rows of numbers; with `named`, the first column is a name. */
static void add_table(cJSON *object, const char *key, struct store *store, const char *sql, bool named,
		      const char *const *columns, int count)
{
	cJSON *rows = cJSON_AddArrayToObject(object, key);
	sqlite3_stmt *statement = store_prepare(store, sql);
	while (statement && sqlite3_step(statement) == SQLITE_ROW) {
		cJSON *row = cJSON_CreateObject();
		if (named)
			add_name(row, statement, 0);
		for (int i = 0; i < count; i++)
			add_number(row, columns[i], statement, i + named);
		cJSON_AddItemToArray(rows, row);
	}
	sqlite3_finalize(statement);
}
#define ADD_TABLE(object, key, store, sql, ...)                                                                        \
	do {                                                                                                           \
		static const char *const columns_of[] = {__VA_ARGS__};                                                 \
		add_table(object, key, store, sql, true, columns_of, (int)(sizeof columns_of / sizeof *columns_of));   \
	} while (0)

static void add_copies(cJSON *object, struct store *store)
{
	cJSON *rows = cJSON_AddArrayToObject(object, "copies");
	sqlite3_stmt *statement = store_prepare(
		store, "SELECT kind, total(calls), total(bytes), total(total) FROM copy_totals GROUP BY kind "
		       "ORDER BY 4 DESC, kind LIMIT 16");
	while (statement && sqlite3_step(statement) == SQLITE_ROW) {
		cJSON *row = cJSON_CreateObject();
		const char *kind = copy_kind_word((unsigned)sqlite3_column_int64(statement, 0));
		cJSON_AddStringToObject(row, "kind", kind ? kind : "unknown");
		add_number(row, "calls", statement, 1);
		add_number(row, "bytes", statement, 2);
		add_number(row, "total_ns", statement, 3);
		cJSON_AddItemToArray(rows, row);
	}
	sqlite3_finalize(statement);
}

/* One row as an object; null where there is none. */
static void add_object(cJSON *object, const char *key, struct store *store, const char *sql, const char *const *columns,
		       int count)
{
	sqlite3_stmt *statement = store_prepare(store, sql);
	if (statement && sqlite3_step(statement) == SQLITE_ROW) {
		cJSON *row = cJSON_AddObjectToObject(object, key);
		for (int i = 0; i < count; i++)
			add_number(row, columns[i], statement, i);
	} else {
		cJSON_AddNullToObject(object, key);
	}
	sqlite3_finalize(statement);
}

static void add_gpu(cJSON *object, struct store *store, bool cupti, uint64_t refused)
{
	static const char *const set_columns[] = {"calls", "bytes", "total_ns"};
	static const char *const gpu_columns[] = {"cupti_version", "driver_version", "clock_error_ns"};
	if (!cupti) {
		static const char *const keys[] = {"kernels", "kernels_total", "copies", "sets", "gpu"};
		for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
			cJSON_AddNullToObject(object, keys[i]);
		return;
	}
	ADD_TABLE(object, "kernels", store,
		  "SELECT (SELECT text FROM strings WHERE id = name), total(calls), total(total) AS time, "
		  "total(total) / max(total(CASE WHEN max IS NOT NULL THEN calls END), 1), min(min), max(max) FROM "
		  "kernel_totals GROUP BY name ORDER BY time DESC, name LIMIT 20",
		  "calls", "total_ns", "average_ns", "min_ns", "max_ns");
	add_count(object, "kernels_total", store, "SELECT count(DISTINCT coalesce(name, 0)) FROM kernel_totals");
	if (refused & 1ull << ACTIVITY_COPY)
		cJSON_AddNullToObject(object, "copies");
	else
		add_copies(object, store);
	if (refused & 1ull << ACTIVITY_SET)
		cJSON_AddNullToObject(object, "sets");
	else
		add_object(object, "sets", store, "SELECT total(calls), total(bytes), total(total) FROM set_totals",
			   set_columns, 3);
	add_object(object, "gpu", store,
		   "SELECT cupti_version, driver_version, clock_error FROM sessions ORDER BY rowid DESC LIMIT 1",
		   gpu_columns, 3);
}

static void add_notes(cJSON *object, struct store *store)
{
	cJSON *rows = cJSON_AddArrayToObject(object, "notes");
	sqlite3_stmt *statement = store_prepare(store, "SELECT value FROM meta WHERE key = 'notes'");
	if (statement && sqlite3_step(statement) == SQLITE_ROW) {
		char text[2048], *at = text, *line;
		text_copy(text, sizeof text, (const char *)sqlite3_column_text(statement, 0));
		while ((line = strsep(&at, "\n")) != NULL)
			cJSON_AddItemToArray(rows, cJSON_CreateString(line));
	}
	sqlite3_finalize(statement);
}

static void add_losses(cJSON *object, struct store *store)
{
	cJSON *rows = cJSON_AddArrayToObject(object, "losses");
	sqlite3_stmt *statement = store_prepare(store, "SELECT kind, loss, count, is_loss, sentence FROM losses");
	while (statement && sqlite3_step(statement) == SQLITE_ROW) {
		cJSON *row = cJSON_CreateObject();
		cJSON_AddStringToObject(row, "kind", (const char *)sqlite3_column_text(statement, 0));
		cJSON_AddStringToObject(row, "loss", (const char *)sqlite3_column_text(statement, 1));
		add_number(row, "count", statement, 2);
		cJSON_AddBoolToObject(row, "is_loss", sqlite3_column_int(statement, 3));
		cJSON_AddStringToObject(row, "sentence", (const char *)sqlite3_column_text(statement, 4));
		cJSON_AddItemToArray(rows, row);
	}
	sqlite3_finalize(statement);
}

static void add_collectors(cJSON *object, struct store *store)
{
	cJSON *rows = cJSON_AddArrayToObject(object, "collectors");
	sqlite3_stmt *statement = store_prepare(
		store, "SELECT collector, ran, sentence, coalesce(enable, 0) FROM collectors WHERE wanted");
	while (statement && sqlite3_step(statement) == SQLITE_ROW) {
		cJSON *row = cJSON_CreateObject();
		cJSON_AddStringToObject(row, "collector", (const char *)sqlite3_column_text(statement, 0));
		cJSON_AddBoolToObject(row, "on", sqlite3_column_int(statement, 1));
		cJSON_AddStringToObject(row, "sentence", (const char *)sqlite3_column_text(statement, 2));
		add_number(row, "enable_ns", statement, 3);
		cJSON_AddItemToArray(rows, row);
	}
	sqlite3_finalize(statement);
}

static void add_known(cJSON *object, const char *key, uint64_t value)
{
	if (value)
		cJSON_AddNumberToObject(object, key, (double)value);
	else
		cJSON_AddNullToObject(object, key);
}

static void add_cost(cJSON *object, const struct store_ending *ending)
{
	cJSON *cost = cJSON_AddObjectToObject(object, "cost");
	add_known(cost, "step_before_ns", ending->step_before);
	add_known(cost, "step_during_ns", ending->step_during);
	cJSON_AddNullToObject(cost, "step_after_ns");
	if (!ending->has_done) {
		/* The agent did not tell: not measured, which is not 0. */
		cJSON_AddNullToObject(cost, "enable_ns");
		cJSON_AddNullToObject(cost, "drain_ns");
		cJSON_AddNullToObject(cost, "agent_cpu_ns");
		cJSON_AddNullToObject(cost, "agent_bytes");
		cJSON_AddNullToObject(cost, "clock_off_ns");
		cJSON_AddNullToObject(cost, "late_steps");
		return;
	}
	cJSON_AddNumberToObject(cost, "enable_ns", (double)ending->enable);
	cJSON_AddNumberToObject(cost, "drain_ns", (double)ending->drain);
	cJSON_AddNumberToObject(cost, "agent_cpu_ns", (double)ending->agent_cpu);
	cJSON_AddNumberToObject(cost, "agent_bytes", (double)ending->agent_bytes);
	add_known(cost, "clock_off_ns", ending->clock_off);
	cJSON_AddNumberToObject(cost, "late_steps", (double)ending->late);
}

/* Cuts the end of the longest list until the text fits. Only names of hostile length make that necessary. */
static char *print_within(cJSON *object)
{
	static const char *const lists[] = {"kernels", "ranges", "operators", "steps"};
	for (;;) {
		char *text = cJSON_PrintUnformatted(object);
		if (!text || strlen(text) <= SUMMARY_BYTES)
			return text;
		free(text);
		cJSON *longest = NULL;
		for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
			cJSON *list = cJSON_GetObjectItem(object, lists[i]);
			if (!longest || cJSON_GetArraySize(list) > cJSON_GetArraySize(longest))
				longest = list;
		}
		if (!longest || cJSON_GetArraySize(longest) == 0)
			return NULL;
		cJSON_DeleteItemFromArray(longest, cJSON_GetArraySize(longest) - 1);
	}
}

char *summary_text(struct store *store, const struct store_ending *ending, const struct derived *derived,
		   uint64_t derive_ns, cJSON *verdict)
{
	cJSON *object = cJSON_CreateObject();
	add_steps(object, store, derived->cupti, derived->notes.refused);
	ADD_TABLE(object, "operators", store,
		  "SELECT (SELECT text FROM strings WHERE id = name), total(calls), total(self) AS own, total(total), "
		  "CASE WHEN count(self_device) THEN total(self_device) END, CASE WHEN count(device) THEN "
		  "total(device) END FROM operator_totals GROUP BY name ORDER BY total(self_device) DESC, own DESC, "
		  "name LIMIT 20",
		  "calls", "self_cpu_ns", "cpu_ns", "self_device_ns", "device_ns");
	add_count(object, "self_cpu_ns", store, "SELECT CAST(total(self) AS INTEGER) FROM operator_totals");
	add_count(object, "operators_total", store, "SELECT count(DISTINCT name) FROM operator_totals");
	ADD_TABLE(object, "ranges", store,
		  "SELECT (SELECT text FROM strings WHERE id = name), total(calls), total(total) AS time, "
		  "total(self), CASE WHEN count(self_device) THEN total(self_device) END, CASE WHEN count(device) "
		  "THEN total(device) END FROM range_totals GROUP BY name ORDER BY time DESC, name LIMIT 20",
		  "calls", "total_ns", "self_ns", "self_device_ns", "device_ns");
	add_count(object, "ranges_total", store, "SELECT count(DISTINCT name) FROM range_totals");
	add_gpu(object, store, derived->cupti, derived->notes.refused);
	add_notes(object, store);
	add_losses(object, store);
	add_collectors(object, store);
	add_cost(object, ending);
	if (verdict)
		cJSON_AddItemToObject(object, "verdict", verdict);
	else
		cJSON_AddNullToObject(object, "verdict");
	cJSON_AddNumberToObject(object, "derive_ns", (double)derive_ns);
	char *text = store->error ? NULL : print_within(object);
	cJSON_Delete(object);
	return text;
}
