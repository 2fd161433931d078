/* output.c - see output.h. */
#include "output.h"

#include "text.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

cJSON *json_new(const char *kind)
{
	cJSON *object = need(cJSON_CreateObject());
	char schema[48];

	snprintf(schema, sizeof schema, "profd.%s/1", kind);
	need(cJSON_AddStringToObject(object, "schema", schema));
	return object;
}

int json_print(cJSON *object)
{
	char *text = need(cJSON_PrintUnformatted(object));

	puts(text);
	free(text);
	cJSON_Delete(object);
	return EXIT_DONE;
}

void json_sort(cJSON *array, int (*order)(const void *, const void *))
{
	size_t count = (size_t)cJSON_GetArraySize(array);
	cJSON **items = need(calloc(count + 1, sizeof *items));

	for (size_t i = 0; i < count; i++)
		items[i] = cJSON_DetachItemFromArray(array, 0);
	qsort(items, count, sizeof *items, order);
	for (size_t i = 0; i < count; i++)
		cJSON_AddItemToArray(array, items[i]);
	free(items);
}

void json_add_pid(cJSON *object, int64_t pid)
{
	if (pid > 0)
		need(cJSON_AddNumberToObject(object, "pid", (double)pid));
	else
		need(cJSON_AddNullToObject(object, "pid"));
}

void json_add_text(cJSON *object, const char *key, const char *text)
{
	char *clean;

	if (!text) {
		need(cJSON_AddNullToObject(object, key));
		return;
	}
	clean = text_utf8(text);
	need(cJSON_AddStringToObject(object, key, clean));
	free(clean);
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

void collect_row(struct daemon *daemon, const cJSON *row, int fd, void *context)
{
	struct collect *collect = context;
	cJSON *copy;

	if (fd >= 0)
		close(fd);
	if (!reply_is_row(row, collect->row))
		return;
	copy = need(cJSON_Duplicate(row, true));
	cJSON_DeleteItemFromObjectCaseSensitive(copy, "row");
	need(cJSON_AddStringToObject(copy, "daemon", daemon->path));
	cJSON_AddItemToArray(collect->array, copy);
}

int listing_query(struct daemons *daemons, const cJSON *request, const char *row, cJSON **ret_rows)
{
	struct collect collect = {row, need(cJSON_CreateArray())};
	struct failure failure;

	*ret_rows = collect.array;
	return daemons_query(daemons, request, collect_row, &collect, &failure) ? EXIT_DONE : failure_print(&failure);
}

void listing_print(const struct listing *listing, const cJSON *rows, enum output_format format)
{
	struct screen screen = screen_output();
	struct table *table;
	const cJSON *row;

	if (format == FORMAT_JSON) {
		cJSON *object = json_new(listing->kind);

		cJSON_AddItemToObject(object, listing->key, need(cJSON_Duplicate(rows, true)));
		json_print(object);
		return;
	}
	table = table_new(listing->columns, listing->count);
	cJSON_ArrayForEach(row, rows)
	{
		table_add(table);
		for (size_t c = 0; c < listing->count; c++)
			table_set_member(table, c, row, listing->columns[c].key);
	}
	if (format == FORMAT_CSV)
		table_csv(table, stdout, 0);
	else if (table_rows(table))
		table_print(table, &screen, 0);
	table_free(table);
}

bool glob_matches(const char *glob, const char *name)
{
	return fnmatch(glob, name, 0) == 0;
}
