/* victims.h - which captures go when a budget is exceeded. A pure function over plain values: no disk, no clock, no loop.
 *
 * What is too old goes first. Then, where one user is over a budget of users, the oldest of that user. Where the whole is
 * over its budget, or too little is free on the disk, the oldest of the user who has most of it at that moment: one user's
 * flood never costs another the few captures they have. Pinned ones never go, and count as all others do. */
#ifndef PROFD_DAEMON_VICTIMS_H
#define PROFD_DAEMON_VICTIMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct kept {
	uint64_t number, bytes;
	uint64_t finished; /* CLOCK_REALTIME ns */
	uid_t uid;
	bool pinned;
	/* Somebody is about to read it: it stays for now, and nothing younger of its user goes in its place. */
	bool held;
	size_t next; /* victims_choose's own */
};

/* 0 = no limit. */
struct victim_limits {
	uint64_t bytes, bytes_user, captures, captures_user;
	uint64_t age, now; /* ns; now is CLOCK_REALTIME */
	uint64_t missing;  /* bytes that are to become free */
};

enum victim_reason {
	VICTIM_AGE,
	VICTIM_BYTES_USER,
	VICTIM_CAPTURES_USER,
	VICTIM_BYTES,
	VICTIM_CAPTURES,
	VICTIM_FREE_SPACE,
};
/* The word that the audit log has for it. */
const char *victim_word(enum victim_reason reason);

struct victim {
	size_t index; /* of its row */
	enum victim_reason reason;
	uint64_t had; /* what was there before it went: ns of age, bytes or captures, bytes that were missing */
};

struct victims_rest {
	bool held;	  /* somebody who is about to read one keeps it from going */
	uint64_t next_at; /* CLOCK_REALTIME ns at which the next one is too old; 0 = none will be */
	bool more;	  /* `room` was not enough */
};

/* `rows`: oldest first. Fills at most `room` victims in the order in which they go; returns how many. Out of memory: 0, and
 * `more`. */
size_t victims_choose(struct kept *rows, size_t count, const struct victim_limits *limits, struct victim *ret,
		      size_t room, struct victims_rest *ret_rest);

#endif
