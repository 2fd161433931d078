/* space.h - how much room the store's file system has, beside the floor that profd.conf sets (free_space). Any thread: one
 * system call that reads the kernel's own counters; it waits for no disk, which is why the loop may ask too. */
#ifndef PROFD_BASE_SPACE_H
#define PROFD_BASE_SPACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The floor as configured: the loop's to write, any thread's to read. */
struct space_floor {
	_Atomic uint64_t bytes;
	_Atomic uint32_t percent; /* of the file system: the floor is never more */
};

struct space {
	uint64_t free;	 /* bytes that a daemon without root's privilege may still fill */
	uint64_t floor;	 /* bytes that are to stay free; 0 = none */
	uint64_t inodes; /* that are left; UINT64_MAX where the file system has no such number */
	bool known;	 /* false: the file system does not say; nothing else is set */
};

/* `floor` may be NULL: none. */
void space_look(int folder, const struct space_floor *floor, struct space *ret);
/* Bytes below the floor, 0 where there is room. */
uint64_t space_missing(const struct space *space);

/* A file of 256 KiB in the store's folder: what a daemon needs to open its catalogue when somebody has filled the disk. Taken, that is
 * deleted, at the start where there is less room than that; kept, that is made, where there is plenty. 0 or a negative errno. */
int space_reserve_take(const char *directory);
int space_reserve_keep(const char *directory);

/* "1.5 GiB" */
#define SPACE_TEXT_BYTES 24
const char *space_text(uint64_t bytes, char ret[SPACE_TEXT_BYTES]);
/* Why nothing can begin, or go on, below the floor, and what to do. */
void space_low_sentence(const struct space *space, const char *path, char *to, size_t to_bytes);
/* The same of a capture that was under way; " after 3 of 10 steps" can follow. */
void space_ended_sentence(const struct space *space, char *to, size_t to_bytes);
/* What a write to `path` (a folder, with the descriptor `folder`) failed with, how much room there is, how much was
 * needed (bytes; 0 = not known), and what to do. `error` is positive. False where it is nothing that a disk says. */
bool space_error_sentence(int folder, const char *path, int error, uint64_t needed, char *to, size_t to_bytes);

#endif
