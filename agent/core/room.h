/* room.h - how much memory the process may still take, and the share that the agent allows itself. The share is a
 * quarter for all that a capture maps, measured when the capture is armed. What the agent has kept from earlier
 * captures counts as part of that quarter.
 *
 * A caller may take half of the answer, so that later callers get something, too. Where there is no limit the answer is
 * UINT64_MAX. Only for threads of the agent, because these functions make system calls. */
#ifndef PROFD_AGENT_CORE_ROOM_H
#define PROFD_AGENT_CORE_ROOM_H

#include <stddef.h>
#include <stdint.h>

/* A capture is armed: measures what it may take. Before the first capture each answer is a quarter of what is left. */
void room_begin(void);

/* Bytes of address space that are left of the share: a quarter of what RLIMIT_AS (ulimit -v) leaves the process.
 * room_segments() is for segments. After room_spare(), and until the next capture is armed, room_space() answers so
 * many bytes less: the next cycle's segment comes last, and must still find room. */
uint64_t room_space(void);
uint64_t room_segments(void);
void room_spare(uint64_t bytes);

/* Bytes of private memory: a quarter of what RLIMIT_DATA leaves, and at most a quarter of what the limits of the
 * process's memory cgroup, and of the cgroups above it, leave now. */
uint64_t room_memory(void);

/* Bytes for a table that is used only in small part. It minds no cgroup, because cgroups count only the used pages. */
uint64_t room_table(void);

/* Maps a table of zeros, which is never unmapped. room_map() is for a table that a capture needs in any case, or for
 * which room was asked before; room_try() maps it only where there is room. NULL: there is none. */
void *room_map(size_t bytes);
void *room_try(size_t bytes);

/* So many bytes have been mapped in another way, or unmapped (negative). Any thread. */
void room_count(int64_t space, int64_t data);

/* Ends a sentence that says what is not recorded. */
#define ROOM_NEAR_LIMIT ": the process is near its limit (ulimit -v, ulimit -d, or its cgroup's)"

/* Why a segment could not be mapped, by what segment_map() returned. */
const char *room_sentence(int error);

#endif
