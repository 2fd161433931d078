/* spans.c - see spans.h. */
#include "spans.h"

/* Looks back over so many. */
#define LOOK_BACK 4096

uint32_t spans_name(const struct activity_spans *spans, uint32_t thread, int64_t time, unsigned doings)
{
	size_t low = 0, high = spans->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct activity_span *span = &spans->items[middle];

		if (span->thread < thread || (span->thread == thread && span->start <= time))
			low = middle + 1;
		else
			high = middle;
	}
	for (size_t n = 0; low > 0 && n < LOOK_BACK; n++) {
		const struct activity_span *span = &spans->items[--low];

		if (span->thread != thread)
			break;
		if (span->end > time && doings & 1u << span->what)
			return span->name;
	}
	return 0;
}
