/* grid.c - see grid.h. */
#include "grid.h"

#include "cells.h"
#include "json.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

static const char *const kinds[] = {
	[COLUMN_TEXT] = "text",		[COLUMN_NUMBER] = "number", [COLUMN_COUNT] = "count",
	[COLUMN_DURATION] = "duration", [COLUMN_BYTES] = "bytes",   [COLUMN_PERCENT] = "percent",
	[COLUMN_FLAG] = "flag",		[COLUMN_RATE] = "rate",	    [COLUMN_SPEED] = "speed",
	[COLUMN_RATIO] = "ratio",	[COLUMN_MORE] = "duration", [COLUMN_MORE_PERCENT] = "percent",
	[COLUMN_LIST] = "list",
};

static bool has_value(const struct table *table, size_t column)
{
	for (size_t row = 0; row < table->rows; row++) {
		enum cell_type type = table->cells[row * table->count + column].type;
		if (type != CELL_EMPTY)
			return true;
	}
	return false;
}

static bool is_shown(const struct table *table, size_t column)
{
	const struct column *about = &table->columns[column];
	return *about->title && !(about->flags & COLUMN_DATA_ONLY) &&
	       !(about->flags & COLUMN_OPTIONAL && !has_value(table, column));
}

static cJSON *value_of(const struct cell *cell)
{
	switch (cell->type) {
	case CELL_INTEGER:
		return cJSON_CreateNumber((double)cell->integer);
	case CELL_REAL:
		return cJSON_CreateNumber(cell->real);
	case CELL_TEXT: {
		char *text = text_utf8(cell->text);
		cJSON *string = cJSON_CreateString(text);
		free(text);
		return string;
	}
	case CELL_ABSENT:
		return cJSON_CreateString("not recorded");
	case CELL_EMPTY:
		break;
	}
	return cJSON_CreateNull();
}

static void add_columns(cJSON *grid, const struct table *table)
{
	cJSON *columns = need(cJSON_AddArrayToObject(grid, "columns"));
	for (size_t c = 0; c < table->count; c++) {
		if (!is_shown(table, c))
			continue;
		cJSON *column = need(cJSON_CreateObject());
		json_add_text(column, "title", table->columns[c].title);
		json_add_text(column, "kind", kinds[table->columns[c].kind]);
		cJSON_AddItemToArray(columns, column);
	}
}

static void add_notes(cJSON *grid, const struct table *table)
{
	cJSON *notes = need(cJSON_AddArrayToObject(grid, "notes"));
	for (const char *at = table->notes ? table->notes : ""; *at; at += strcspn(at, "\n"), at += *at == '\n') {
		char *line = need(strndup(at, strcspn(at, "\n"))), *text = text_utf8(line);
		cJSON_AddItemToArray(notes, need(cJSON_CreateString(text)));
		free(text);
		free(line);
	}
}

cJSON *table_grid(const struct table *table, size_t limit)
{
	cJSON *grid = need(cJSON_CreateObject());
	add_columns(grid, table);
	cJSON *rows = need(cJSON_AddArrayToObject(grid, "rows"));
	for (size_t r = 0; r < table_shown(table, limit); r++) {
		cJSON *row = need(cJSON_CreateArray());
		for (size_t c = 0; c < table->count; c++)
			if (is_shown(table, c))
				cJSON_AddItemToArray(row, need(value_of(&table->cells[r * table->count + c])));
		cJSON_AddItemToArray(rows, row);
	}
	need(cJSON_AddNumberToObject(grid, "total", (double)(table->whole > table->rows ? table->whole : table->rows)));
	add_notes(grid, table);
	return grid;
}
