/* keeper.h - the thread that holds the agent's descriptors.
 *
 * Launchers and daemons close descriptors that they do not know, threads unshare their table, children inherit it, and numbers
 * are used again: what we keep by number in the job's table is not ours for long. So it lies in a table of this thread's own,
 * which nobody else in the process can reach and no child inherits, and everything that touches a descriptor runs here. Not the
 * agent's thread itself: that one calls into CUPTI and torch, whose descriptors are the job's.
 *
 * A kernel before 5.9, in a container that forbids unshare(), gives no table: then the numbers are the job's, high ones, and
 * each is held against what it was (device, inode, type) before every use and before it is closed. */
#ifndef PROFD_AGENT_CORE_KEEPER_H
#define PROFD_AGENT_CORE_KEEPER_H

#include "../../proto/segment.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* Body of the keeper's thread. Returns after keeper_end(). */
void *keeper_main(void *unused);

/* Runs work(argument) on the keeper's thread and returns what it returns. From the agent's thread; any other runs it itself, as
 * the keeper's own does. What it may do: system calls on descriptors, nothing that takes a lock. */
long keeper_run(long (*work)(void *argument), void *argument);
/* The calling thread is the agent's from now on. It calls `stop`, which does not return, once the keeper has stopped for
 * good. */
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

/* Takes a descriptor that has just been made; returns the number by which it is known from now on, or a negative errno, where
 * it is closed. */
int keeper_take(int fd);
/* Opens a file of /proc that is read again and again; as keeper_take(). Negative, too, where the table is the job's: there a descriptor
 * that is lost unseen has its number taken by the next one. */
int keeper_open(const char *path);
/* Up to bytes - 1 bytes from its beginning, 0 where it cannot be read any more. Always ends `to` by a NUL. */
size_t keeper_read_again(int fd, char *to, size_t bytes);
/* Is it still what was taken? One that is not is forgotten, and the number is not touched any more. */
int keeper_has(int fd);
void keeper_close(int fd);
/* Wakes the agent's thread once (life.h, WAKE_SOCKET) when this descriptor can be read or is gone; -1: none. */
void keeper_watch(int fd);

/* A fork child's: closes what it has inherited where the table is the job's. */
void keeper_close_in_child(void);

#endif
