/* eviction.h - which captures are deleted when a budget is exceeded. A pure function over plain values: no disk, no clock, no
 * loop.
 *
 * Captures that are too old go first. Then, where one user is over a user's budget, that user's oldest. Where the whole store is
 * over its budget, or too little is free on the disk, the oldest of the user who has most at that moment: a user who records a
 * great many captures deletes only their own. Pinned captures never go, and count as all others do. A capture that
 * somebody is about to read stays. If a budget is exceeded, its user's younger ones stay, too. If the disk is too full,
 * the younger ones go in its place, and a minute after it was finished it goes itself: nobody keeps a disk full by not
 * reading. */
#ifndef PROFD_DAEMON_CATALOGUE_EVICTION_H
#define PROFD_DAEMON_CATALOGUE_EVICTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct kept {
	uint64_t number, bytes;
	uint64_t finished; /* CLOCK_REALTIME ns */
	uid_t uid;
	bool pinned;
	/* Somebody is about to read it: it stays for now. */
	bool held;
	size_t next; /* eviction_choose's own */
};

/* 0 = no limit. */
struct eviction_limits {
	uint64_t bytes, bytes_user, captures, captures_user;
	uint64_t age, now; /* ns; now is CLOCK_REALTIME */
	uint64_t missing;  /* bytes that are to become free */
};

enum eviction_reason {
	EVICTION_AGE,
	EVICTION_BYTES_USER,
	EVICTION_CAPTURES_USER,
	EVICTION_BYTES,
	EVICTION_CAPTURES,
	EVICTION_FREE_SPACE,
};
/* The word that the audit log has for it. */
const char *eviction_word(enum eviction_reason reason);

struct eviction {
	size_t index; /* of its row */
	enum eviction_reason reason;
	uint64_t had; /* what was there before it went: ns of age, bytes or captures, bytes that were missing */
};

struct eviction_rest {
	bool held;	  /* somebody who is about to read one keeps it from going */
	uint64_t next_at; /* CLOCK_REALTIME ns at which the next one is too old; 0 = none will be */
	bool more;	  /* `room` was not enough */
	uint64_t missing; /* bytes that would be to become free still, were there others that may go */
};

/* `rows`: oldest first. Fills at most `room`, in the order in which they go; returns how many. Out of memory: 0, and
 * `more`. */
size_t eviction_choose(struct kept *rows, size_t count, const struct eviction_limits *limits, struct eviction *ret,
		       size_t room, struct eviction_rest *ret_rest);

#endif
