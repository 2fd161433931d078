/* spans.c - see spans.h. */
#include "spans.h"
#include "proto/base/array.h"

/* So many spans are looked at, backwards. */
#define LOOK_BACK 4096

uint32_t spans_name(const struct activity *activity, uint32_t number, int64_t time, unsigned doings)
{
	const struct activity_thread *thread = activity_find(activity, number);
	size_t low = thread ? ARRAY_BEFORE(thread->spans.count, middle, thread->spans.items[middle].start <= time) : 0;

	for (size_t n = 0; low > 0 && n < LOOK_BACK; n++) {
		const struct activity_span *span = &thread->spans.items[--low];

		if (span->end > time && doings & 1u << span->what)
			return span->name;
	}
	return 0;
}
