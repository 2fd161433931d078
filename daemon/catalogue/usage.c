/* usage.c - see usage.h. Thread: the loop's. No locks. */
#include "usage.h"
#include "daemon/core/rooms.h"

#include <stdlib.h>
#include <string.h>

struct usage *usage_of(const struct server *server)
{
	return room_state(server, ROOM_USAGE);
}

static struct usage_owner *find(const struct usage *usage, uid_t uid)
{
	for (size_t i = 0; i < usage->count; i++)
		if (usage->owners[i].uid == uid)
			return &usage->owners[i];
	return NULL;
}

void usage_deinit(struct usage *usage)
{
	free(usage->owners);
	memset(usage, 0, sizeof *usage);
}

void usage_add(struct usage *usage, uid_t uid, uint64_t captures, uint64_t bytes)
{
	struct usage_owner *owner = find(usage, uid);
	if (!owner) {
		struct usage_owner *grown = realloc(usage->owners, (usage->count + 1) * sizeof *grown);
		if (!grown)
			return; /* op "status" and budgets count less; nothing is lost */
		usage->owners = grown;
		owner = &grown[usage->count++];
		*owner = (struct usage_owner){.uid = uid};
	}
	owner->captures += captures;
	owner->bytes += bytes;
}

void usage_remove(struct usage *usage, uid_t uid, uint64_t captures, uint64_t bytes)
{
	struct usage_owner *owner = find(usage, uid);
	if (!owner)
		return;
	owner->captures -= captures < owner->captures ? captures : owner->captures;
	owner->bytes -= bytes < owner->bytes ? bytes : owner->bytes;
}

void usage_pin(struct usage *usage, uid_t uid, uint64_t captures, uint64_t bytes, bool pinned)
{
	struct usage_owner *owner = find(usage, uid);
	if (!owner)
		return;
	if (pinned) {
		owner->pinned_captures += captures;
		owner->pinned_bytes += bytes;
		return;
	}
	owner->pinned_captures -= captures < owner->pinned_captures ? captures : owner->pinned_captures;
	owner->pinned_bytes -= bytes < owner->pinned_bytes ? bytes : owner->pinned_bytes;
}

struct usage_owner usage_sum(const struct usage *usage, bool all, uid_t uid)
{
	struct usage_owner sum = {.uid = uid};
	for (size_t i = 0; i < usage->count; i++) {
		if (!all && usage->owners[i].uid != uid)
			continue;
		sum.captures += usage->owners[i].captures;
		sum.bytes += usage->owners[i].bytes;
		sum.pinned_captures += usage->owners[i].pinned_captures;
		sum.pinned_bytes += usage->owners[i].pinned_bytes;
	}
	return sum;
}
