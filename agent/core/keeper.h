/* keeper.h - the thread that holds the agent's descriptors.
 *
 * Launchers and daemons close descriptors that they do not know, threads unshare their table, children inherit it, and
 * numbers are used again. So a number in the job's table does not stay ours for long. Therefore this thread has a
 * descriptor table that nobody else in the process can reach and no child inherits, and everything that touches a
 * descriptor of ours runs here. The agent's thread cannot have that table: it calls into CUPTI and torch, whose
 * descriptors are the job's.
 *
 * A kernel before 5.9, in a container that forbids unshare(), gives no such table. Then our descriptors have high
 * numbers in the job's table, and before each use and each close the agent checks that the number is still the same
 * file (device, inode, type). */
#ifndef PROFD_AGENT_CORE_KEEPER_H
#define PROFD_AGENT_CORE_KEEPER_H

#include "../../proto/segment.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* Body of the keeper's thread. Returns after keeper_end(). */
void *keeper_main(void *unused);

/* Runs work(argument) on the keeper's thread and returns what it returns. Called by the agent's thread; any other
 * thread, the keeper's too, runs work() itself. work() makes system calls on descriptors, and takes no lock. */
long keeper_run(long (*work)(void *argument), void *argument);
/* The calling thread is the agent's from now on. Once the keeper has stopped for good, the agent's thread calls `stop`,
 * which does not return. */
void keeper_serve(void (*stop)(void));

/* The keeper closes all that it has and ends; returns once its thread is gone. `thread` is what thread_start() gave. Agent's thread. */
void keeper_end(pthread_t thread);

/* For any thread: up to bytes - 1 bytes of the file, 0 where it cannot be read. Always ends `to` by a NUL. */
size_t keeper_read_file(const char *path, char *to, size_t bytes);

/* Unmaps the segment and closes its descriptor. Agent's thread. */
void keeper_unmap(struct segment *segment);

/* CPU time of the keeper's thread in ns. */
uint64_t keeper_cpu(void);

/* --- only inside of keeper_run --- */

/* Takes a new descriptor. Returns the number that it has from now on, or a negative errno; then it is closed. */
int keeper_take(int fd);
/* Opens a file of /proc that is read again and again. Returns as keeper_take(); also negative where our descriptors are
 * in the job's table, because there the job may close a descriptor unseen, and the next file gets its number. */
int keeper_open(const char *path);
/* Reads up to bytes - 1 bytes from the file's beginning; 0 where it cannot be read any more. Always ends `to` by a
 * NUL. */
size_t keeper_read_again(int fd, char *to, size_t bytes);
/* Is the descriptor still the file that was taken? If not, it is forgotten, and the number is not touched any more. */
int keeper_has(int fd);
void keeper_close(int fd);
/* Wakes the agent's thread once (life.h, WAKE_SOCKET) when this descriptor can be read or is gone; -1: none. */
void keeper_watch(int fd);

/* In a fork child: closes our descriptors that it has inherited, if they were in the job's table. */
void keeper_close_in_child(void);

#endif
