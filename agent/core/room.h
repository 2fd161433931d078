/* room.h - how much memory the process may still take, and the share of it that the agent allows itself: a quarter for all that a capture
 * maps, measured when it is armed. What the agent has kept of earlier captures is a part of that quarter, and nobody takes it twice.
 *
 * Who asks may take half of what is answered, so that those who ask later get something, too.
 * Where there is no limit the answer is UINT64_MAX. Threads of the agent alone: they ask the kernel. */
#ifndef PROFD_AGENT_CORE_ROOM_H
#define PROFD_AGENT_CORE_ROOM_H

#include <stddef.h>
#include <stdint.h>

/* A capture is armed: what it may take is measured now. Before the first one each answer is a quarter of what is left. */
void room_begin(void);

/* Bytes of address space that are left of its share: a quarter of what RLIMIT_AS (ulimit -v) leaves the process. The second function is
 * for segments, and from room_spare() on, until the next capture is armed, the first one answers so much less: the next cycle's segment
 * comes when all others have taken theirs. */
uint64_t room_space(void);
uint64_t room_segments(void);
void room_spare(uint64_t bytes);

/* Bytes of memory of its own: a quarter of what RLIMIT_DATA leaves, and at most one of what the limits of its memory cgroup and of those
 * above it leave now. */
uint64_t room_memory(void);

/* Bytes of a table of which little is ever used: cgroups count what is used. */
uint64_t room_table(void);

/* A table, of zeros, for good: room_map() one that no capture can do without, or that was asked for; room_try() where there is room for it.
 * NULL for none. */
void *room_map(size_t bytes);
void *room_try(size_t bytes);

/* So much has been mapped otherwise, or is no more (negative). Any thread. */
void room_count(int64_t space, int64_t data);

/* Ends the sentence that something is not recorded. */
#define ROOM_NEAR_LIMIT ": the process is near its limit (ulimit -v, ulimit -d, or its cgroup's)"

/* Why a segment could not be mapped, by what segment_map() returned. */
const char *room_sentence(int error);

#endif
