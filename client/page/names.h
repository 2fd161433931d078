/* names.h - names of a capture that the page says more than once: each stands in it once, and is meant by its index. */
#ifndef PROFD_CLIENT_PAGE_NAMES_H
#define PROFD_CLIENT_PAGE_NAMES_H

#include "client/reader/reader.h"

#include <cjson/cJSON.h>

struct page_names {
	const struct reader *reader;
	sqlite3_stmt *strings;
	char **texts;
	int64_t *ids; /* in strings, of each */
	size_t count;
	bool shortened; /* by page_names_array() */
};

void page_names_init(struct page_names *names, const struct reader *reader);
void page_names_deinit(struct page_names *names);
/* The index of the string with this id. */
size_t page_name(struct page_names *names, int64_t id);
/* All of them, by their indexes. Where they are so long that the page would be large, they are shortened. */
cJSON *page_names_array(struct page_names *names);

#endif
