/* output.h - what all verbs print by: JSON with a schema, a table in the asked format, members of a daemon's rows. */
#ifndef PROFD_CLIENT_OUTPUT_H
#define PROFD_CLIENT_OUTPUT_H

#include "client/link/connection.h"
#include "client/options.h"
#include "table.h"

#include <cjson/cJSON.h>

/* {"schema": "profd.<kind>/1"} */
cJSON *json_new(const char *kind);
/* Prints one line and frees the object. Returns EXIT_DONE. */
int json_print(cJSON *object);
/* Sorts an array; `order` gets two (cJSON *const *). */
void json_sort(cJSON *array, int (*order)(const void *, const void *));
/* Adds a text that may hold anything; NULL becomes null. */
void json_add_text(cJSON *object, const char *key, const char *text);
/* Adds "pid", null where it is 0: that of a process that cannot be seen from here. */
void json_add_pid(cJSON *object, int64_t pid);

/* Sets a cell of the newest row to a member of a daemon's row, whatever its type; missing or null: stays empty. */
void table_set_member(struct table *table, size_t column, const cJSON *object, const char *key);

/* row_handler: appends a copy of each row of the kind `row` to `array`, without "row" and with the daemon's socket. */
struct collect {
	const char *row;
	cJSON *array;
};
void collect_row(struct daemon *daemon, const cJSON *row, int fd, void *context);

/* A verb that lists: the kind of its JSON and the key of the array in it, and its columns. */
struct listing {
	const char *kind, *key;
	const struct column *columns;
	size_t count;
};
/* Asks all daemons and collects the rows of one kind; *ret_rows is to be freed, whatever the code. Returns an exit code,
 * after its sentence. */
int listing_query(struct daemons *daemons, const cJSON *request, const char *row, cJSON **ret_rows);
/* Prints the rows in the asked format; of a table without rows, nothing. */
void listing_print(const struct listing *listing, const cJSON *rows, enum output_format format);

/* fnmatch(3) with * and ? of a name; what a daemon's --name means. */
bool glob_matches(const char *glob, const char *name);

#endif
