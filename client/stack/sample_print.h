/* sample_print.h - what a while of looking at processes has shown: for people, as JSON, and as folded stacks. */
#ifndef PROFD_CLIENT_STACK_SAMPLE_PRINT_H
#define PROFD_CLIENT_STACK_SAMPLE_PRINT_H

#include "sample.h"

#include <cjson/cJSON.h>

/* At most `limit` rows a table (0 = all). */
void sample_print(const struct samples *samples, size_t limit);
/* Members of `object`. */
void sample_json(const struct samples *samples, cJSON *object);
/* A different stack a line, the outermost frame first, with ; between, and how long it was seen, in microseconds; `waits`: those of threads
 * that were asleep, too. flamegraph.pl and speedscope read it. */
void sample_print_folded(const struct samples *samples, bool waits);

#endif
