/* lttng_pair.c - the time of one pair of LTTng-UST tracepoints.
 *
 *     lttng_pair SECONDS      prints {"ns": the fastest batch, "pairs": N, "enabled": whether a session records
 * them} */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "lttng_pair.h"
#include "pair.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? strtod(argv[1], NULL) : 1, best = 1e9;
	uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);
	long pairs = 0;
	int enabled = lttng_ust_tracepoint_enabled(profd_bench, push) && lttng_ust_tracepoint_enabled(profd_bench, pop);
	while (now_ns() < end) {
		uint64_t from = now_ns();
		for (int i = 0; i < PAIRS; i++) {
			lttng_ust_tracepoint(profd_bench, push, "forward");
			lttng_ust_tracepoint(profd_bench, pop, 0);
		}
		double each = (double)(now_ns() - from) / PAIRS;
		if (each < best)
			best = each;
		pairs += PAIRS;
		pause_between();
	}
	printf("{\"ns\": %.3f, \"pairs\": %ld, \"enabled\": %s}\n", best, pairs, enabled ? "true" : "false");
	return 0;
}
