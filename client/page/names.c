/* names.c - see names.h. There are a few thousand at the most: they are looked for one after the other. */
#include "names.h"

#include "client/report/query.h"
#include "client/ui/name.h"
#include "client/ui/text.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

/* Names of templates have hundreds of bytes, and there may be thousands of them. */
#define NAMES_BYTES 150000
#define NAME_LEAST 24

void page_names_init(struct page_names *names, const struct reader *reader)
{
	*names = (struct page_names){.reader = reader};
	names->strings = report_prepare(reader, "SELECT text FROM strings WHERE id = ?1");
}

void page_names_deinit(struct page_names *names)
{
	sqlite3_finalize(names->strings);
	for (size_t i = 0; i < names->count; i++)
		free(names->texts[i]);
	free(names->texts);
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
	names->ids = need(reallocarray(names->ids, names->count + 1, sizeof *names->ids));
	names->ids[names->count] = id;
	names->texts = need(reallocarray(names->texts, names->count + 1, sizeof *names->texts));
	names->texts[names->count] = text_utf8(found ? found : "(nameless)");
	return names->count++;
}

/* Short ones leave room to the long ones: the width at which all of them have NAMES_BYTES. */
static size_t width_of(const struct page_names *names)
{
	size_t width = NAME_LEAST;
	for (size_t next = width, bytes = 0; bytes <= NAMES_BYTES; next += next / 4) {
		size_t longest = 0;
		width = next;
		bytes = 0;
		for (size_t i = 0; i < names->count; i++) {
			size_t length = strlen(names->texts[i]);
			longest = length > longest ? length : longest;
			bytes += length < next + next / 4 ? length : next + next / 4;
		}
		if (longest <= width)
			return width;
	}
	return width;
}

cJSON *page_names_array(struct page_names *names)
{
	cJSON *array = need(cJSON_CreateArray());
	size_t bytes = 0;
	for (size_t i = 0; i < names->count; i++)
		bytes += strlen(names->texts[i]);
	names->shortened = bytes > NAMES_BYTES;
	if (names->shortened)
		names_fit(names->texts, names->count, width_of(names), true);
	for (size_t i = 0; i < names->count; i++)
		cJSON_AddItemToArray(array, need(cJSON_CreateString(names->texts[i])));
	return array;
}
