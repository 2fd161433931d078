/* room.h - how much memory the process may still take, and the share of it that the agent allows itself. */
#ifndef PROFD_AGENT_CORE_ROOM_H
#define PROFD_AGENT_CORE_ROOM_H

#include <stdint.h>

/* Bytes of address space that the agent may take now: a quarter of what RLIMIT_AS (ulimit -v) leaves the process, UINT64_MAX
 * where there is no limit. */
uint64_t room_space(void);

/* Bytes of memory of its own that it may take now: a quarter of what RLIMIT_DATA and the limits of its memory cgroup and of those
 * above it leave. */
uint64_t room_memory(void);

/* Why a segment could not be mapped, by what segment_map() returned. */
const char *room_sentence(int error);

#endif
