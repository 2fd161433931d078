/* collect.h - the rows of one kind from all daemons, in one array. */
#ifndef PROFD_CLIENT_LINK_COLLECT_H
#define PROFD_CLIENT_LINK_COLLECT_H

#include "connection.h"

/* row_handler: appends a copy of each row of the kind `row` to `array`, without "row" and with the daemon's socket. */
struct collect {
	const char *row;
	cJSON *array;
};
void collect_row(struct daemon *daemon, const cJSON *row, int fd, void *context);

/* Asks all daemons and collects the rows of one kind. *ret_rows is to be freed, whatever the code. Returns an exit
 * code, after its sentence. */
int collect_rows(struct daemons *daemons, const cJSON *request, const char *row, cJSON **ret_rows);

#endif
