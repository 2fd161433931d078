/* lttng_pair.h - LTTng-UST's provider for the comparison: what a range costs there is a tracepoint that carries its name
 * and one that ends it. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER profd_bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./lttng_pair.h"

#if !defined(PROFD_BENCH_LTTNG_PAIR_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define PROFD_BENCH_LTTNG_PAIR_H

#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(profd_bench, push, LTTNG_UST_TP_ARGS(const char *, name),
			   LTTNG_UST_TP_FIELDS(lttng_ust_field_string(name, name)))

LTTNG_UST_TRACEPOINT_EVENT(profd_bench, pop, LTTNG_UST_TP_ARGS(int, unused),
			   LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, unused, unused)))

#endif

#include <lttng/tracepoint-event.h>
