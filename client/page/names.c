/* names.c - see names.h. There are a few thousand at the most: they are looked for one after the other. */
#include "names.h"

#include "client/report/query.h"
#include "client/ui/text.h"

#include <sqlite3.h>
#include <stdlib.h>

void page_names_init(struct page_names *names, const struct reader *reader)
{
	*names = (struct page_names){.reader = reader, .array = need(cJSON_CreateArray())};
	names->strings = report_prepare(reader, "SELECT text FROM strings WHERE id = ?1");
}

void page_names_deinit(struct page_names *names)
{
	sqlite3_finalize(names->strings);
	free(names->ids);
}

size_t page_name(struct page_names *names, int64_t id)
{
	for (size_t i = 0; i < names->count; i++)
		if (names->ids[i] == id)
			return i;
	sqlite3_reset(names->strings);
	sqlite3_bind_int64(names->strings, 1, id);
	const char *found = sqlite3_step(names->strings) == SQLITE_ROW
				    ? (const char *)sqlite3_column_text(names->strings, 0)
				    : NULL;
	char *text = text_utf8(found ? found : "(nameless)");
	names->ids = need(reallocarray(names->ids, names->count + 1, sizeof *names->ids));
	names->ids[names->count] = id;
	cJSON_AddItemToArray(names->array, need(cJSON_CreateString(text)));
	free(text);
	return names->count++;
}
