/* space.h - free space on the file system of the daemon's captures, and the floor below which it must not fall
 * (free_space of profd.conf). Any thread, also the loop's: one system call reads counters of the kernel and waits for
 * no disk. */
#ifndef PROFD_PROTO_BASE_SPACE_H
#define PROFD_PROTO_BASE_SPACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The floor as configured. The loop writes it, any thread reads it. */
struct space_floor {
	_Atomic uint64_t bytes;
	_Atomic uint32_t percent; /* of the file system; the floor is at most that */
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

/* A reserve: a file of 256 KiB in the daemon's folder. The daemon needs so much to open its catalogue on a full disk.
 * _take deletes the file where less than that is free, _keep makes it where four times as much is free. 0 or a negative
 * errno. */
int space_reserve_take(const char *directory);
int space_reserve_keep(const char *directory);

/* "1.5 GiB" */
#define SPACE_TEXT_BYTES 24
const char *space_text(uint64_t bytes, char ret[SPACE_TEXT_BYTES]);
/* Says why nothing can begin or go on below the floor, and what to do. */
void space_low_sentence(const struct space *space, const char *path, char *to, size_t to_bytes);
/* The same for a capture that was under way; " after 3 of 10 steps" can follow. */
void space_ended_sentence(const struct space *space, char *to, size_t to_bytes);
/* Says why a write into `path` (a folder, `folder` is its descriptor) failed, how much is free, how much was needed (bytes;
 * 0 = not known), and what to do. error: a positive errno. False where the error is not one of disks. */
bool space_error_sentence(int folder, const char *path, int error, uint64_t needed, char *to, size_t to_bytes);

#endif
