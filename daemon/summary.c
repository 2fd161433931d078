/* summary.c - see summary.h. Thread: one of the finish pool. No locks. */
#include "summary.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 512
/* The row around it carries the capture's own fields, and must fit into one packet. */
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

static void add_steps(cJSON *object, struct store *store)
{
	cJSON *rows = cJSON_AddArrayToObject(object, "steps");
	sqlite3_stmt *statement =
		store_prepare(store, "SELECT step, number, duration FROM steps ORDER BY step LIMIT 100");
	while (statement && sqlite3_step(statement) == SQLITE_ROW) {
		cJSON *row = cJSON_CreateObject();
		add_number(row, "step", statement, 0);
		add_number(row, "number", statement, 1);
		add_number(row, "wall_ns", statement, 2);
		cJSON_AddItemToArray(rows, row);
	}
	sqlite3_finalize(statement);
	add_count(object, "steps_total", store, "SELECT count(*) FROM steps");
}

/* Rows of name, calls and two times. */
static void add_names(cJSON *object, const char *key, struct store *store, const char *sql, const char *first,
		      const char *second)
{
	cJSON *rows = cJSON_AddArrayToObject(object, key);
	sqlite3_stmt *statement = store_prepare(store, sql);
	while (statement && sqlite3_step(statement) == SQLITE_ROW) {
		cJSON *row = cJSON_CreateObject();
		add_name(row, statement, 0);
		add_number(row, "calls", statement, 1);
		add_number(row, first, statement, 2);
		add_number(row, second, statement, 3);
		cJSON_AddItemToArray(rows, row);
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

static void add_cost(cJSON *object, const struct ingest_ending *ending)
{
	cJSON *cost = cJSON_AddObjectToObject(object, "cost");
	add_known(cost, "step_before_ns", ending->step_before);
	add_known(cost, "step_during_ns", ending->step_during);
	cJSON_AddNullToObject(cost, "step_after_ns");
	if (!ending->has_done) {
		/* The agent never told: not measured, which is not 0. */
		cJSON_AddNullToObject(cost, "enable_ns");
		cJSON_AddNullToObject(cost, "drain_ns");
		cJSON_AddNullToObject(cost, "agent_cpu_ns");
		cJSON_AddNullToObject(cost, "agent_bytes");
		cJSON_AddNullToObject(cost, "late_steps");
		return;
	}
	cJSON_AddNumberToObject(cost, "enable_ns", (double)ending->enable);
	cJSON_AddNumberToObject(cost, "drain_ns", (double)ending->drain);
	cJSON_AddNumberToObject(cost, "agent_cpu_ns", (double)ending->agent_cpu);
	cJSON_AddNumberToObject(cost, "agent_bytes", (double)ending->agent_bytes);
	cJSON_AddNumberToObject(cost, "late_steps", (double)ending->late);
}

/* The longest list loses its tail until the text fits: names of hostile length are the only way to get here. */
static char *print_within(cJSON *object)
{
	static const char *const lists[] = {"ranges", "operators", "steps"};
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

char *summary_text(struct store *store, const struct ingest_ending *ending, uint64_t derive_ns)
{
	cJSON *object = cJSON_CreateObject();
	add_steps(object, store);
	add_names(object, "operators", store,
		  "SELECT (SELECT text FROM strings WHERE id = name), sum(calls), sum(self) AS self, sum(total) "
		  "FROM operator_totals GROUP BY name ORDER BY self DESC, name LIMIT 20",
		  "self_cpu_ns", "cpu_ns");
	add_count(object, "operators_total", store, "SELECT count(DISTINCT name) FROM operator_totals");
	add_names(object, "ranges", store,
		  "SELECT (SELECT text FROM strings WHERE id = name), sum(calls), sum(total) AS total, sum(self) "
		  "FROM range_totals GROUP BY name ORDER BY total DESC, name LIMIT 20",
		  "total_ns", "self_ns");
	add_count(object, "ranges_total", store, "SELECT count(DISTINCT name) FROM range_totals");
	add_losses(object, store);
	add_collectors(object, store);
	add_cost(object, ending);
	cJSON_AddNumberToObject(object, "derive_ns", (double)derive_ns);
	char *text = store->error ? NULL : print_within(object);
	cJSON_Delete(object);
	return text;
}
