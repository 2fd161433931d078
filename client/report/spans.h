/* spans.h - in which operator or call a thread was at an instant. */
#ifndef PROFD_CLIENT_REPORT_SPANS_H
#define PROFD_CLIENT_REPORT_SPANS_H

#include "store/breakdown/breakdown.h"

/* Sets of enum doing, one bit for each. */
#define SPANS_ANY (~0u)
#define SPANS_OPERATORS (1u << DOING_OPERATOR | 1u << DOING_COMM)
#define SPANS_WAITS (1u << DOING_SYNC | 1u << DOING_COPY)

/* The id of the name of the innermost operator or call with one of these doings; 0: none. */
uint32_t spans_name(const struct activity *activity, uint32_t thread, int64_t time, unsigned doings);

#endif
