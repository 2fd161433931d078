/* plausible.h - may a well-formed record be true? Its writer may be hostile. A record that passes is safe to add up, to
 * sort and to show. The bounds of each member come from its role in events.def. */
#ifndef PROFD_PROTO_PLAUSIBLE_H
#define PROFD_PROTO_PLAUSIBLE_H

#include "events.h"

#include <stdbool.h>

/* The longest time that a record may claim: five hours. Sums over a capture's rows stay within 64 bits in practice and within
 * doubles always. */
#define PLAUSIBLE_SPAN_MAX (1ull << 44)
/* The latest time: 146 years after the machine started. */
#define PLAUSIBLE_TIME_MAX (1ull << 62)
/* A pebibyte. */
#define PLAUSIBLE_BYTES_MAX (1ull << 50)
/* PID_MAX_LIMIT of the kernel. */
#define PLAUSIBLE_THREAD_MAX (1u << 22)

/* Facts of the capture that a record belongs to. */
struct plausible_bounds {
	uint64_t first, last;	/* times, both included; first > 0 */
	uint32_t strings_bytes; /* of the arena of names */
};

/* `base`: a time within the recording; 0 = not known, and any time passes. Times far from `base` do not pass. */
struct plausible_bounds plausible_around(uint64_t base, uint32_t strings_bytes);

bool plausible(const union event_any *event, const struct plausible_bounds *bounds);

/* The first time that a record tells, 0 where it tells none. */
uint64_t event_time(const union event_any *event);
/* Sets the record's first time: when it began, or happened. A record without a time is not changed. */
void event_set_time(union event_any *event, uint64_t time);
/* The id by which the record's call is found; 0 where it has none. */
uint32_t event_correlation(const union event_any *event);

#endif
