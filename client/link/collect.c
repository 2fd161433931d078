/* collect.c - see collect.h. */
#include "collect.h"

#include "client/ui/text.h"

#include <unistd.h>

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

int collect_rows(struct daemons *daemons, const cJSON *request, const char *row, cJSON **ret_rows)
{
	struct collect collect = {row, need(cJSON_CreateArray())};
	struct failure failure;

	*ret_rows = collect.array;
	return daemons_query(daemons, request, collect_row, &collect, &failure) ? EXIT_DONE : failure_print(&failure);
}
