/* query.c - what the tables' queries share. */
#include "client/ui/failure.h"
#include "client/ui/text.h"
#include "report.h"

#include "proto/events.h"
#include "proto/limits.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void damaged(const struct reader *reader)
{
	char why[FAILURE_TEXT_BYTES];

	reader_why(reader, why, sizeof why);
	exit(fail(EXIT_FAILED, "%s", why));
}

sqlite3_stmt *report_prepare(const struct reader *reader, const char *sql)
{
	sqlite3_stmt *statement = NULL;

	if (sqlite3_prepare_v2(reader->db, sql, -1, &statement, NULL) != SQLITE_OK)
		damaged(reader);
	return statement;
}

bool report_next(const struct reader *reader, sqlite3_stmt *statement)
{
	int result = sqlite3_step(statement);

	if (result == SQLITE_ROW && bounds_row(reader->bounds))
		return true;
	if (result != SQLITE_DONE)
		damaged(reader);
	sqlite3_finalize(statement);
	return false;
}

void report_cell(struct table *table, size_t column, sqlite3_stmt *statement, int from)
{
	switch (sqlite3_column_type(statement, from)) {
	case SQLITE_NULL:
		break;
	case SQLITE_TEXT:
		table_set_text(table, column, (const char *)sqlite3_column_text(statement, from));
		break;
	default:
		table_set(table, column, sqlite3_column_int64(statement, from));
		break;
	}
}

void report_whole(struct table *table, const cJSON *summary, const char *key)
{
	const cJSON *total = cJSON_GetObjectItemCaseSensitive(summary, key);

	if (cJSON_IsNumber(total) && total->valuedouble > 0 && total->valuedouble < 1e15)
		table_set_whole(table, (size_t)total->valuedouble);
}

struct table *report_summary(const struct column *columns, size_t count, const cJSON *summary, const char *key,
			     size_t shared, int64_t whole)
{
	struct table *table = table_new(columns, count);
	char total[32];
	const cJSON *row;

	cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(summary, key))
	{
		const cJSON *part = cJSON_GetObjectItemCaseSensitive(row, columns[shared].key);

		table_add(table);
		for (size_t c = 0; c < count; c++)
			table_set_member(table, c, row, columns[c].key);
		if (whole > 0 && cJSON_IsNumber(part))
			table_set_real(table, shared + 1, part->valuedouble * 100 / (double)whole);
	}
	snprintf(total, sizeof total, "%s_total", key);
	report_whole(table, summary, total);
	return table;
}

/* Is `key` this one, which may say device_ where torch.profiler's older releases say cuda_? */
static bool is_key(const char *key, const char *known)
{
	static const char newer[] = "device_", older[] = "cuda_";
	const char *at = strstr(known, newer);
	size_t head = at ? (size_t)(at - known) : 0;

	if (strcmp(key, known) == 0)
		return true;
	return at && strncmp(key, known, head) == 0 && strncmp(key + head, older, sizeof older - 1) == 0 &&
	       strcmp(key + head + sizeof older - 1, at + sizeof newer - 1) == 0;
}

const char *report_order(const struct report_key *keys, size_t count, const char *key)
{
	for (size_t i = 0; key && i < count; i++)
		if (is_key(key, keys[i].key))
			return keys[i].sql;
	return keys[0].sql;
}

struct table *report_query(const struct reader *reader, const struct report_options *options,
			   const struct report_shape *shape, const char *sql)
{
	struct table *table = table_new(shape->columns, shape->count);
	const char *order = shape->keys ? report_order(shape->keys, shape->key_count, options->sort_by) : "";
	sqlite3_stmt *statement;
	char *whole = NULL;

	if (shape->collector && !report_device_ran(reader, shape->collector))
		return table;
	if (asprintf(&whole, "%s ORDER BY %s%s%s", sql, order, *order ? ", " : "", shape->ties) < 0)
		need(NULL);
	statement = report_prepare(reader, whole);
	free(whole);
	if (sqlite3_bind_parameter_count(statement) > 0)
		sqlite3_bind_int64(statement, 1, options->step);
	while (report_next(reader, statement)) {
		table_add(table);
		for (size_t c = 0; c < shape->count; c++) {
			enum column_kind kind = shape->columns[c].kind;

			if ((kind == COLUMN_PERCENT || kind == COLUMN_RATE) &&
			    sqlite3_column_type(statement, (int)c) != SQLITE_NULL)
				table_set_real(table, c, sqlite3_column_double(statement, (int)c));
			else
				report_cell(table, c, statement, (int)c);
		}
		if (shape->finish)
			shape->finish(table, statement);
	}
	return table;
}

bool report_key_is_device(const char *key)
{
	return strstr(key, "device_") || strstr(key, "cuda_");
}

bool report_ran(const struct reader *reader, const char *collector)
{
	sqlite3_stmt *statement = report_prepare(reader, "SELECT ran FROM collectors WHERE collector = ?1");
	bool ran = false;

	sqlite3_bind_text(statement, 1, collector, -1, SQLITE_STATIC);
	while (report_next(reader, statement))
		ran = sqlite3_column_int(statement, 0) != 0;
	return ran;
}

bool report_device_ran(const struct reader *reader, const char *collector)
{
	return reader_meta_int(reader, "schema", 0) >= 2 && report_ran(reader, collector);
}

bool report_gpu(const struct reader *reader)
{
	return report_device_ran(reader, collector_word(COLLECTOR_CUPTI));
}

bool report_simulated(const struct reader *reader)
{
	return reader_meta_int(reader, "simulated", 0) ||
	       (report_gpu(reader) && reader_count(reader,
						   "SELECT count(*) FROM devices d JOIN strings s ON s.id = d.name "
						   "WHERE s.text GLOB '" SIMULATED_DEVICE "*'",
						   0) > 0);
}

int64_t report_session_options(const struct reader *reader)
{
	return report_gpu(reader) ? reader_count(reader, "SELECT options FROM sessions ORDER BY rowid DESC", 0) : 0;
}

bool report_refused(const struct reader *reader, int64_t kinds)
{
	if (!kinds || !report_gpu(reader) || reader_meta_int(reader, "schema", 0) < 3)
		return false;
	return (reader_count(reader, "SELECT refused FROM sessions ORDER BY rowid DESC", 0) & kinds) == kinds;
}

static int64_t single(const struct reader *reader, const char *sql, const struct report_options *options)
{
	sqlite3_stmt *statement = report_prepare(reader, sql);
	int64_t value = 0;

	sqlite3_bind_int64(statement, 1, options->step);
	while (report_next(reader, statement))
		value = sqlite3_column_int64(statement, 0);
	return value;
}

int64_t report_self_cpu_total(const struct reader *reader, const struct report_options *options)
{
	return report_ran(reader, "torch")
		       ? single(reader, "SELECT sum(self) FROM operator_totals WHERE" REPORT_STEP, options)
		       : -1;
}

int64_t report_device_total(const struct reader *reader, const struct report_options *options)
{
	return report_gpu(reader) ? single(reader, "SELECT " REPORT_DEVICE_TIME, options) : -1;
}

char *report_sentence(const struct reader *reader, const char *collector)
{
	sqlite3_stmt *statement = report_prepare(reader, "SELECT sentence FROM collectors WHERE collector = ?1");
	char *sentence = NULL;

	sqlite3_bind_text(statement, 1, collector, -1, SQLITE_STATIC);
	while (report_next(reader, statement)) {
		const char *text = (const char *)sqlite3_column_text(statement, 0);

		free(sentence);
		sentence = need(strdup(text ? text : ""));
	}
	return sentence ? sentence : need(strdup(""));
}

int64_t report_step(const struct reader *reader, int64_t wanted)
{
	sqlite3_stmt *statement = report_prepare(
		reader, "SELECT step FROM steps WHERE step = ?1 OR number = ?1 ORDER BY step = ?1 DESC LIMIT 1");
	int64_t step = 0;

	sqlite3_bind_int64(statement, 1, wanted);
	while (report_next(reader, statement))
		step = sqlite3_column_int64(statement, 0);
	return step;
}

int64_t report_step_count(const struct reader *reader)
{
	return reader_count(reader, "SELECT count(*) FROM steps WHERE rowid > -1", 0);
}
