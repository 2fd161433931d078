/* tables.c - what `profd show` shows, for the page. */
#include "parts.h"
#include "steps.h"

#include "client/report/losses.h"
#include "client/report/recorded.h"
#include "client/report/views.h"
#include "client/ui/grid.h"
#include "client/ui/json.h"
#include "client/ui/text.h"

#include <stdlib.h>
#include <string.h>

#define MOST_ROWS 400
/* A table with long names has fewer rows. */
#define TABLE_BYTES 64000
#define LEAST_ROWS 50

static size_t bytes_of(const cJSON *row)
{
	const cJSON *cell;
	size_t bytes = 0;
	cJSON_ArrayForEach(cell, row) bytes += cJSON_IsString(cell) ? strlen(cell->valuestring) + 3 : 8;
	return bytes;
}

static void cut_rows(cJSON *rows)
{
	const cJSON *row;
	size_t bytes = 0;
	int count = 0;
	cJSON_ArrayForEach(row, rows)
	{
		bytes += bytes_of(row);
		if (bytes > TABLE_BYTES && count >= LEAST_ROWS)
			break;
		count++;
	}
	while (cJSON_GetArraySize(rows) > count)
		cJSON_DeleteItemFromArray(rows, count);
}

static cJSON *grid_of(struct table *table, const char *heading)
{
	cJSON *grid = table_grid(table, MOST_ROWS);
	cut_rows(cJSON_GetObjectItem(grid, "rows"));
	json_add_text(grid, "heading", heading);
	table_free(table);
	return grid;
}

/* The page draws these by itself, and shows them better. */
static bool is_drawn(const struct view *view)
{
	static const char *const drawn[] = {"breakdown", "totals", "findings", "tree"};
	for (size_t i = 0; i < sizeof drawn / sizeof *drawn; i++)
		if (strcmp(view->name, drawn[i]) == 0)
			return true;
	return false;
}

static void add_view(cJSON *to, const struct reader *reader, const struct report_options *options,
		     const struct view *view)
{
	bool recorded = view_recorded(reader, view);
	/* It is said once, by the kernels, that nothing of the device was recorded. */
	if (!recorded && view->flags & VIEW_DEVICE && !(view->flags & VIEW_TELLS) && !report_gpu(reader))
		return;
	struct table *table = view->table(reader, options);
	if (!table_rows(table) && view->flags & VIEW_RARE) {
		table_free(table);
		return;
	}
	cJSON *grid = grid_of(table, view->heading);
	if (!recorded) {
		char *absence = view_absence(reader, view);
		json_add_text(grid, "absence", absence);
		free(absence);
	}
	need(cJSON_AddBoolToObject(grid, "how", (view->flags & (VIEW_APART | VIEW_ALWAYS)) != 0));
	need(cJSON_AddBoolToObject(grid, "open",
				   strcmp(view->name, "operators") == 0 || strcmp(view->name, "kernels") == 0 ||
					   (view->flags & VIEW_ALWAYS) != 0));
	cJSON_AddItemToArray(to, grid);
}

cJSON *page_tables(struct capture *capture, struct page_time *time)
{
	const struct report_options options = {.summary = capture->summary, .kept = &time->kept};
	const struct reader *reader = &capture->reader;
	cJSON *tables = need(cJSON_CreateArray());
	size_t count;
	const struct view *views = view_table(&count);
	for (size_t i = 0; i < count; i++)
		if (!is_drawn(&views[i]))
			add_view(tables, reader, &options, &views[i]);
	cJSON *collectors = grid_of(report_collectors(reader), "Collectors");
	need(cJSON_AddBoolToObject(collectors, "how", true));
	cJSON_AddItemToArray(tables, collectors);
	return tables;
}
