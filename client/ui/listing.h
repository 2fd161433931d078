/* listing.h - what a verb that lists rows prints: a table, CSV, or JSON. */
#ifndef PROFD_CLIENT_UI_LISTING_H
#define PROFD_CLIENT_UI_LISTING_H

#include "table.h"

/* The kind of its JSON and the key of the array in it, and its columns. */
struct listing {
	const char *kind, *key;
	const struct column *columns;
	size_t count;
};

/* Prints the rows in the wanted format; of a table without rows, nothing. */
void listing_print(const struct listing *listing, const cJSON *rows, enum output_format format);

#endif
