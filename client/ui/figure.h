/* figure.h - cuts times and lengths of a file to a range in which a few of them can be added without an overflow: 73
 * years on either side of a capture. Only broken files have others. */
#ifndef PROFD_CLIENT_UI_FIGURE_H
#define PROFD_CLIENT_UI_FIGURE_H

#include <stdint.h>

#define FIGURE_LIMIT (INT64_C(1) << 61)

static inline int64_t figure_time(int64_t ns)
{
	return ns < -FIGURE_LIMIT ? -FIGURE_LIMIT : ns > FIGURE_LIMIT ? FIGURE_LIMIT : ns;
}

static inline int64_t figure_length(int64_t ns)
{
	return ns < 0 ? 0 : figure_time(ns);
}
/* A sum of many: it stays at the largest. */
static inline void figure_add(int64_t *to, int64_t value)
{
	if (__builtin_add_overflow(*to, value, to))
		*to = INT64_MAX;
}

#endif
