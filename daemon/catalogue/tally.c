/* tally.c - see tally.h. Thread: the loop's. No locks. */
#include "tally.h"

#include <stdlib.h>
#include <string.h>

static struct tally_owner *find(const struct tally *tally, uid_t uid)
{
	for (size_t i = 0; i < tally->count; i++)
		if (tally->owners[i].uid == uid)
			return &tally->owners[i];
	return NULL;
}

void tally_deinit(struct tally *tally)
{
	free(tally->owners);
	memset(tally, 0, sizeof *tally);
}

void tally_add(struct tally *tally, uid_t uid, uint64_t captures, uint64_t bytes)
{
	struct tally_owner *owner = find(tally, uid);
	if (!owner) {
		struct tally_owner *grown = realloc(tally->owners, (tally->count + 1) * sizeof *grown);
		if (!grown)
			return; /* status tells less; nothing else hangs on it */
		tally->owners = grown;
		owner = &grown[tally->count++];
		*owner = (struct tally_owner){.uid = uid};
	}
	owner->captures += captures;
	owner->bytes += bytes;
}

void tally_remove(struct tally *tally, uid_t uid, uint64_t captures, uint64_t bytes)
{
	struct tally_owner *owner = find(tally, uid);
	if (!owner)
		return;
	owner->captures -= captures < owner->captures ? captures : owner->captures;
	owner->bytes -= bytes < owner->bytes ? bytes : owner->bytes;
}

void tally_pin(struct tally *tally, uid_t uid, uint64_t captures, uint64_t bytes, bool pinned)
{
	struct tally_owner *owner = find(tally, uid);
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

struct tally_owner tally_sum(const struct tally *tally, bool all, uid_t uid)
{
	struct tally_owner sum = {.uid = uid};
	for (size_t i = 0; i < tally->count; i++) {
		if (!all && tally->owners[i].uid != uid)
			continue;
		sum.captures += tally->owners[i].captures;
		sum.bytes += tally->owners[i].bytes;
		sum.pinned_captures += tally->owners[i].pinned_captures;
		sum.pinned_bytes += tally->owners[i].pinned_bytes;
	}
	return sum;
}
