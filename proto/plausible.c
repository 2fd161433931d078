/* plausible.c - see plausible.h. No state. */
#include "plausible.h"
#include "limits.h"

#include <math.h>

struct plausible_bounds plausible_around(uint64_t base, uint32_t strings_bytes)
{
	struct plausible_bounds bounds = {1, PLAUSIBLE_TIME_MAX, strings_bytes};
	if (base > PLAUSIBLE_SPAN_MAX)
		bounds.first = base - PLAUSIBLE_SPAN_MAX;
	if (base && base < PLAUSIBLE_TIME_MAX - PLAUSIBLE_SPAN_MAX)
		bounds.last = base + PLAUSIBLE_SPAN_MAX;
	return bounds;
}

static bool is_time(uint64_t time, const struct plausible_bounds *bounds)
{
	return time >= bounds->first && time <= bounds->last;
}

/* An offset into the arena. Whether a text begins there is checked later, because names may come after the records. */
static bool is_string(uint32_t id, const struct plausible_bounds *bounds)
{
	return id < bounds->strings_bytes / 8;
}

/* A macro for each role; they may use `record` and `bounds`. */
#define IS_TIME(value) is_time(value, bounds)
#define IS_TIME_OR_NONE(value) ((value) == 0 || is_time(value, bounds))
#define IS_SPAN(value) ((value) <= PLAUSIBLE_SPAN_MAX)
#define IS_SELF(value) ((value) <= record->duration)
#define IS_ID(value) ((value) <= INT64_MAX)
#define IS_STRING(value) is_string(value, bounds)
#define IS_INPUTS(value) is_string(value, bounds)
#define IS_THREAD(value) ((value) <= PLAUSIBLE_THREAD_MAX)
#define IS_CORRELATION(value) ((value) != 0)
#define IS_CORRELATION_OR_NONE(value) true
#define IS_BYTES(value) ((value) <= PLAUSIBLE_BYTES_MAX)
#define IS_INT(value) (sizeof(value) < 8 || (uint64_t)(value) <= INT64_MAX)
#define IS_MOST(most) (most) >= (int)
#define IS_BITS(value) true
#define IS_REAL(value) isfinite(value)
#define IS_SKIP(value) true

#define EVENT(number, NAME, name, table, min_size, side, place, description)                                           \
	static bool plausible_##name(const struct event_##name *record, const struct plausible_bounds *bounds)         \
	{                                                                                                              \
		(void)bounds;                                                                                          \
		return record->head.step <= LIMIT_STEPS
#define FIELD(NAME, name, offset, type, member, role, column, description) &&IS_##role(record->member)
#define END_EVENT(NAME, name, size)                                                                                    \
	;                                                                                                              \
	}
#include "events.def"

bool plausible(const union event_any *event, const struct plausible_bounds *bounds)
{
	switch (event->head.kind) {
#define EVENT(number, NAME, name, table, min_size, side, place, description)                                           \
	case number:                                                                                                   \
		return plausible_##name(&event->name, bounds);
#include "events.def"
	default:
		return false; /* not known to this release */
	}
}

/* The first time that is not 0. */
#define TIME_OF_TIME(value)                                                                                            \
	if (!place && (!told || (value)))                                                                              \
		place = &(value);
#define TIME_OF_TIME_OR_NONE TIME_OF_TIME
#define TIME_OF_SPAN(value)
#define TIME_OF_SELF(value)
#define TIME_OF_ID(value)
#define TIME_OF_STRING(value)
#define TIME_OF_INPUTS(value)
#define TIME_OF_THREAD(value)
#define TIME_OF_CORRELATION(value)
#define TIME_OF_CORRELATION_OR_NONE(value)
#define TIME_OF_BYTES(value)
#define TIME_OF_INT(value)
#define TIME_OF_MOST(most) TIME_OF_INT
#define TIME_OF_BITS(value)
#define TIME_OF_REAL(value)
#define TIME_OF_SKIP(value)

/* The address of the record's first time; with `told`, of the first that is not 0. NULL: it has none. */
static inline uint64_t *time_of(union event_any *event, bool told)
{
	uint64_t *place = NULL;
	switch (event->head.kind) {
#define EVENT(number, NAME, name, table, min_size, side, place, description) case number:
#define FIELD(NAME, name, offset, type, member, role, column, description) TIME_OF_##role(event->name.member)
#define END_EVENT(NAME, name, size) break;
#include "events.def"
	default:
		break;
	}
	return place;
}

uint64_t event_time(const union event_any *event)
{
	const uint64_t *place = time_of((union event_any *)event, true);
	return place ? *place : 0;
}

void event_set_time(union event_any *event, uint64_t time)
{
	uint64_t *place = time_of(event, false);
	if (place)
		*place = time;
}

#define CALL_OF_CORRELATION(value) correlation = (value);
#define CALL_OF_CORRELATION_OR_NONE CALL_OF_CORRELATION
#define CALL_OF_TIME(value)
#define CALL_OF_TIME_OR_NONE(value)
#define CALL_OF_SPAN(value)
#define CALL_OF_SELF(value)
#define CALL_OF_ID(value)
#define CALL_OF_STRING(value)
#define CALL_OF_INPUTS(value)
#define CALL_OF_THREAD(value)
#define CALL_OF_BYTES(value)
#define CALL_OF_INT(value)
#define CALL_OF_MOST(most) CALL_OF_INT
#define CALL_OF_BITS(value)
#define CALL_OF_REAL(value)
#define CALL_OF_SKIP(value)

uint32_t event_correlation(const union event_any *event)
{
	uint32_t correlation = 0;
	switch (event->head.kind) {
#define EVENT(number, NAME, name, table, min_size, side, place, description) case number:
#define FIELD(NAME, name, offset, type, member, role, column, description) CALL_OF_##role(event->name.member)
#define END_EVENT(NAME, name, size) break;
#include "events.def"
	default:
		break;
	}
	return correlation;
}
