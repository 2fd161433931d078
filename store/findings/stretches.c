/* stretches.c - see stretches.h. No locks. */
#include "stretches.h"
#include "proto/base/array.h"

/* So many waits and stalls get a name. */
#define NAMED_MOST 65536

static int64_t length_of(const struct claims_stretch *stretch)
{
	return stretch->interval.end - stretch->interval.start;
}

static void keep_longest(struct claims *claims, const struct claims_stretch *stretch)
{
	struct claims_stretch *list = claims->longest[stretch->kind];
	size_t *count = &claims->longest_count[stretch->kind], *shortest = &claims->shortest[stretch->kind];
	claims->total[stretch->kind]++;
	if (*count < FINDING_INTERVALS)
		list[(*count)++] = *stretch;
	else if (length_of(stretch) > length_of(&list[*shortest]))
		list[*shortest] = *stretch;
	else
		return;
	*shortest = 0;
	for (size_t i = 1; i < *count; i++)
		if (length_of(&list[i]) < length_of(&list[*shortest]))
			*shortest = i;
}

void stretches_keep_named(struct claims *claims, const struct claims_stretch *stretch)
{
	if (claims->named_count == NAMED_MOST)
		return;
	if (!ARRAY_GROW(claims->named, claims->named_count, claims->named_room)) {
		claims->failed = true;
		return;
	}
	claims->named[claims->named_count++] = *stretch;
}

static bool told_by_name(enum finding_kind kind)
{
	return kind == FINDING_SYNC || kind == FINDING_STALL || kind == FINDING_ALLOC || kind == FINDING_COMPILE ||
	       kind == FINDING_SETUP;
}

void stretches_keep(struct claims *claims, const struct claims_stretch *stretch)
{
	keep_longest(claims, stretch);
	if (told_by_name(stretch->kind))
		stretches_keep_named(claims, stretch);
}
