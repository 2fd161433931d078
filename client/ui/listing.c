/* listing.c - see listing.h. */
#include "listing.h"

#include "json.h"
#include "print.h"
#include "text.h"

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
