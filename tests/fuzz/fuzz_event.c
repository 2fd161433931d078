/* fuzz_event.c - event_read over the bytes of one chunk. */
#include "proto/events.h"
#include "proto/limits.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	/* Exactly as long as the data, so that reading beyond is seen, and aligned, as malloc's memory is. */
	unsigned char *bytes = malloc(n ? n : 1);
	if (!bytes)
		return 0;
	if (n)
		memcpy(bytes, data, n);
	union event_any event;
	size_t at = 0;
	for (;;) {
		size_t before = at;
		enum event_verdict verdict = event_read(bytes, n, &at, &event);
		if (verdict == EVENT_END || verdict == EVENT_BROKEN) {
			if (at != before)
				abort();
			break;
		}
		if (at <= before || at > n || at % 8)
			abort();
		if (event.head.size != at - before)
			abort();
		if (verdict == EVENT_OK && (!event_name(event.head.kind) || event.head.kind >= EVENT_KIND_COUNT))
			abort();
	}
	free(bytes);
	return 0;
}
