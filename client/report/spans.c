/* spans.c - see spans.h. */
#include "spans.h"
#include "proto/base/array.h"

/* Looks back over so many. */
#define LOOK_BACK 4096

uint32_t spans_name(const struct activity_spans *spans, uint32_t thread, int64_t time, unsigned doings)
{
	const struct activity_span *items = spans->items;
	size_t low = ARRAY_BEFORE(spans->count, middle,
				  items[middle].thread < thread ||
					  (items[middle].thread == thread && items[middle].start <= time));

	for (size_t n = 0; low > 0 && n < LOOK_BACK; n++) {
		const struct activity_span *span = &spans->items[--low];

		if (span->thread != thread)
			break;
		if (span->end > time && doings & 1u << span->what)
			return span->name;
	}
	return 0;
}
