/* table.c - see table.h. */
#include "table.h"

#include "cells.h"
#include "text.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct table *table_new(const struct column *columns, size_t count)
{
	struct table *table = need(calloc(1, sizeof *table));

	table->columns = columns;
	table->count = count;
	return table;
}

struct table *table_free(struct table *table)
{
	if (!table)
		return NULL;
	for (size_t i = 0; i < table->rows * table->count; i++)
		if (table->cells[i].type == CELL_TEXT)
			free(table->cells[i].text);
	free(table->cells);
	free(table->marked);
	free(table->notes);
	free(table);
	return NULL;
}

void table_add(struct table *table)
{
	if (table->rows == table->room) {
		table->room = table->room ? 2 * table->room : 32;
		table->cells = need(reallocarray(table->cells, table->room * table->count, sizeof *table->cells));
		table->marked = need(reallocarray(table->marked, table->room, sizeof *table->marked));
	}
	memset(table->cells + table->rows * table->count, 0, table->count * sizeof *table->cells);
	table->marked[table->rows++] = false;
}

static struct cell *newest(struct table *table, size_t column)
{
	struct cell *cell = &table->cells[(table->rows - 1) * table->count + column];

	if (cell->type == CELL_TEXT)
		free(cell->text);
	return cell;
}

void table_set(struct table *table, size_t column, int64_t value)
{
	struct cell *cell = newest(table, column);

	cell->type = CELL_INTEGER;
	cell->integer = value;
}

void table_set_real(struct table *table, size_t column, double value)
{
	struct cell *cell = newest(table, column);

	cell->type = CELL_REAL;
	cell->real = value;
}

void table_set_text(struct table *table, size_t column, const char *text)
{
	struct cell *cell = newest(table, column);

	cell->type = text ? CELL_TEXT : CELL_EMPTY;
	cell->text = text ? need(strdup(text)) : NULL;
}

void table_unset(struct table *table, size_t column)
{
	newest(table, column)->type = CELL_EMPTY;
}

void table_set_absent(struct table *table, size_t column)
{
	newest(table, column)->type = CELL_ABSENT;
}

void table_mark(struct table *table)
{
	table->marked[table->rows - 1] = true;
}

void table_set_whole(struct table *table, size_t rows)
{
	table->whole = rows;
}

void table_note(struct table *table, const char *format, ...)
{
	char *line = NULL, *notes = NULL;
	va_list arguments;
	int n;

	va_start(arguments, format);
	n = vasprintf(&line, format, arguments);
	va_end(arguments);
	if (n < 0 || asprintf(&notes, "%s%s\n", table->notes ? table->notes : "", line) < 0)
		need(NULL);
	free(line);
	free(table->notes);
	table->notes = notes;
}

size_t table_rows(const struct table *table)
{
	return table->rows;
}

const char *table_notes(const struct table *table)
{
	return table->notes;
}

size_t table_columns(const struct table *table)
{
	return table->count;
}

const struct column *table_column(const struct table *table, size_t column)
{
	return &table->columns[column];
}

size_t table_find(const struct table *table, const char *key)
{
	size_t c = 0;

	while (c < table->count && strcmp(table->columns[c].key, key) != 0)
		c++;
	return c;
}

const char *table_text(const struct table *table, size_t row, size_t column)
{
	const struct cell *cell = &table->cells[row * table->count + column];

	return cell->type == CELL_TEXT ? cell->text : NULL;
}

bool table_figure(const struct table *table, size_t row, size_t column, double *ret)
{
	const struct cell *cell = &table->cells[row * table->count + column];

	if (cell->type == CELL_INTEGER)
		*ret = (double)cell->integer;
	else if (cell->type == CELL_REAL)
		*ret = cell->real;
	return cell->type == CELL_INTEGER || cell->type == CELL_REAL;
}

void table_keep(struct table *table, bool (*keep)(const struct table *table, size_t row, void *context), void *context)
{
	size_t kept = 0;

	for (size_t r = 0; r < table->rows; r++) {
		struct cell *row = table->cells + r * table->count;

		if (keep(table, r, context)) {
			if (kept != r)
				memcpy(table->cells + kept * table->count, row, table->count * sizeof *row);
			table->marked[kept++] = table->marked[r];
			continue;
		}
		for (size_t c = 0; c < table->count; c++)
			if (row[c].type == CELL_TEXT)
				free(row[c].text);
	}
	table->rows = kept;
	table->whole = 0;
}

void table_set_member(struct table *table, size_t column, const cJSON *object, const char *key)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);

	if (cJSON_IsString(item))
		table_set_text(table, column, item->valuestring);
	else if (cJSON_IsNumber(item) && item->valuedouble > -9e18 && item->valuedouble < 9e18)
		table_set(table, column, (int64_t)item->valuedouble);
	else if (cJSON_IsBool(item))
		table_set(table, column, cJSON_IsTrue(item));
}

static void csv_text(FILE *file, const char *text)
{
	/* People look at CSV on terminals, too. */
	char *clean = text_safe(text);

	if (!strpbrk(clean, ",\"\r\n")) {
		fputs(clean, file);
	} else {
		fputc('"', file);
		for (const char *p = clean; *p; p++) {
			if (*p == '"')
				fputc('"', file);
			fputc(*p, file);
		}
		fputc('"', file);
	}
	free(clean);
}

void table_csv(const struct table *table, FILE *file, size_t limit)
{
	size_t rows = table_shown(table, limit);

	for (size_t r = 0; r < rows + 1; r++) {
		bool first = true;

		for (size_t c = 0; c < table->count; c++) {
			const struct column *column = &table->columns[c];
			const struct cell *cell;

			if (column->flags & COLUMN_TABLE_ONLY)
				continue;
			if (!first)
				fputc(',', file);
			first = false;
			if (r == 0) {
				fputs(column->key, file);
				continue;
			}
			cell = &table->cells[(r - 1) * table->count + c];
			if (cell->type == CELL_TEXT)
				csv_text(file, cell->text);
			else if (cell->type == CELL_REAL)
				fprintf(file, "%.6g", cell->real);
			else if (cell->type == CELL_INTEGER && column->kind == COLUMN_FLAG)
				fputs(cell->integer ? "true" : "false", file);
			else if (cell->type == CELL_INTEGER)
				fprintf(file, "%lld", (long long)cell->integer);
		}
		fputc('\n', file);
	}
}

/* "7,13" as an array. */
static cJSON *numbers(const char *list)
{
	cJSON *array = need(cJSON_CreateArray());
	char *end;

	for (const char *at = list; *at; at = *end ? end + 1 : end) {
		long long number = strtoll(at, &end, 10);

		if (end == at)
			break;
		cJSON_AddItemToArray(array, need(cJSON_CreateNumber((double)number)));
	}
	return array;
}

cJSON *table_json(const struct table *table, size_t limit)
{
	size_t rows = table_shown(table, limit);
	cJSON *array = need(cJSON_CreateArray());

	for (size_t r = 0; r < rows; r++) {
		cJSON *object = need(cJSON_CreateObject());

		for (size_t c = 0; c < table->count; c++) {
			const struct column *column = &table->columns[c];
			const struct cell *cell = &table->cells[r * table->count + c];
			cJSON *value = NULL;
			char *clean;
			double scale;

			if (column->flags & COLUMN_TABLE_ONLY)
				continue;
			switch (cell->type) {
			case CELL_EMPTY:
			case CELL_ABSENT:
				value = cJSON_CreateNull();
				break;
			case CELL_INTEGER:
				value = column->kind == COLUMN_FLAG ? cJSON_CreateBool(cell->integer != 0)
								    : cJSON_CreateNumber((double)cell->integer);
				break;
			case CELL_REAL:
				/* Three decimals are more than was measured; of a slow wire they would leave 0. */
				scale = column->kind == COLUMN_RATE && fabs(cell->real) < 0.01 ? 1e6 : 1e3;
				value = cJSON_CreateNumber(round(cell->real * scale) / scale);
				break;
			case CELL_TEXT:
				if (column->kind == COLUMN_LIST) {
					value = numbers(cell->text);
					break;
				}
				clean = text_utf8(cell->text);
				value = cJSON_CreateString(clean);
				free(clean);
				break;
			}
			cJSON_AddItemToObject(object, column->key, need(value));
		}
		cJSON_AddItemToArray(array, object);
	}
	return array;
}
