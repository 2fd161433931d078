/* keep.c - see keep.h. */
#include "keep.h"

#include "client/ui/json.h"
#include "client/ui/text.h"
#include "series.h"

#include "proto/limits.h"

#include <unistd.h>

static void take_removed(struct daemon *daemon, const cJSON *row, int fd, void *context)
{
	const char *id = json_text(row, "capture_id");

	(void)daemon;
	if (fd >= 0)
		close(fd);
	/* A capture may be kept because it is pinned or being read, or because another run has deleted it. */
	if (id && reply_is_row(row, "removed"))
		cJSON_AddItemToArray(context, need(cJSON_CreateString(id)));
}

void keep_newest(const struct daemon *daemon, struct unit *unit, const char *label, int64_t keep)
{
	struct daemons only = {.list = {*daemon}, .count = 1};
	const char *job = json_text(unit->members[0].process, "job");
	struct failure failure;
	cJSON *captures = series_query(&only, label, job && *job ? job : NULL, &failure);

	for (size_t i = 0; captures && i < unit->count; i++) {
		const struct member *member = &unit->members[i];
		struct who who = who_of(member->process, false);
		cJSON *ids, *request;

		/* A process whose pid cannot be seen cannot be told from another of its name and rank. */
		if (member->pid <= 0)
			continue;
		if (member->by_pid || series_needs_pid(captures, &who))
			who = who_of(member->process, true);
		ids = series_surplus(captures, &who, keep);
		while (cJSON_GetArraySize(ids) > LIMIT_TARGETS)
			cJSON_DeleteItemFromArray(ids, 0);
		request = request_new("rm");
		if (cJSON_GetArraySize(ids)) {
			cJSON_AddItemToObject(request, "capture_ids", ids);
			need(cJSON_AddTrueToObject(request, "keep"));
			if (!daemon_query(&only.list[0], request, take_removed, unit->deleted, &failure))
				note("older snapshots could not be deleted: %s", failure.message);
		} else {
			cJSON_Delete(ids);
		}
		cJSON_Delete(request);
	}
	cJSON_Delete(captures);
}
