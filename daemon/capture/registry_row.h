/* registry_row.h - what clients are told about a registered process: its steps, as its status page has them, and its
 * row. Loop's thread. */
#ifndef PROFD_DAEMON_CAPTURE_REGISTRY_ROW_H
#define PROFD_DAEMON_CAPTURE_REGISTRY_ROW_H

#include "proto/events.h"

#include <cjson/cJSON.h>
#include <stdint.h>

struct process;

/* Adds the members of PROCESS (docs/protocol.md), for `viewer`. */
void registry_describe(const struct process *process, uint64_t viewer, cJSON *row);
/* Median of its last 16 step times, ns; 0 where none is known, or it has no steps now. */
uint64_t registry_step_ns(const struct process *process);
enum step_source registry_step_source(const struct process *process);

#endif
