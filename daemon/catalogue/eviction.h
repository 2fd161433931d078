/* eviction.h - which captures are deleted when a budget is exceeded. A pure function over plain values: no disk, no clock, no
 * loop.
 *
 * Captures that are too old go first. Then, if one user is over a user's budget, that user's oldest. If the whole store
 * is over its budget, or too little is free on the disk, the oldest of the user who has most at that moment: so a user
 * who records a great many captures causes only the deletion of their own. Pinned captures never go, and count as all
 * others do. A capture that somebody is about to read stays. If a budget is exceeded, its user's younger ones stay,
 * too. If the disk is too full, younger ones go instead, and a minute after it was finished it may go itself: nobody
 * can keep a disk full by not reading. */
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
/* The word for it in the audit log. */
const char *eviction_word(enum eviction_reason reason);

struct eviction {
	size_t index; /* of its row */
	enum eviction_reason reason;
	uint64_t had; /* the figure before it goes, by reason: ns of age; bytes or captures; bytes that are missing */
};

struct eviction_rest {
	bool held;	  /* a capture stays because somebody is about to read it */
	uint64_t next_at; /* CLOCK_REALTIME ns at which the next one is too old; 0 = none will be */
	bool more;	  /* `room` was not enough */
	uint64_t missing; /* bytes that are still to become free, but no other capture may go */
};

/* `rows`: oldest first. Fills at most `room` evictions, in the order in which the captures go; returns how many. Out of
 * memory: 0, and `more`. */
size_t eviction_choose(struct kept *rows, size_t count, const struct eviction_limits *limits, struct eviction *ret,
		       size_t room, struct eviction_rest *ret_rest);

#endif
