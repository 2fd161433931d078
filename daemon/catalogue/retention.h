/* retention.h - keeps the store within its budgets and the disk above its floor. The loop decides when to look: at the
 * start, after each stored or deleted capture, after pins, after new settings, and, if an age is set, when the next
 * capture is too old. The look itself (eviction.h) and what it deletes are work of the catalogue's thread. Idle,
 * nothing runs.
 *
 * If the disk is below its floor, more is deleted than is missing, so that the next capture has room while others
 * write. As long as there is something to delete, nobody is refused and no running capture is ended, even if the disk
 * is below its floor again by then: one user who writes all the time must not keep others from being served.
 *
 * Loop's thread, except for the atomics. */
#ifndef PROFD_DAEMON_CATALOGUE_RETENTION_H
#define PROFD_DAEMON_CATALOGUE_RETENTION_H

#include "proto/base/space.h"

#include <sys/types.h>
#include <uv.h>

struct server;
struct conn;
struct retention_work;
struct retention_hold;
struct retention_deferred;

struct retention {
	uv_timer_t timer;
	struct space_floor floor; /* what profd.conf says: read by ingest too */
	struct retention_work *running;
	bool again;	     /* look again when the running look is back */
	uint64_t pressed_at; /* CLOCK_MONOTONIC ns of the last look that a capture under way asked for; 0 = none */
	bool reserved;	     /* space_reserve_keep has been done */
	bool pressed;	     /* if the next look does not help, it ends running captures */
	bool exhausted;	     /* the last look left the disk below its floor, and found nothing more to delete */
	struct retention_hold *holds;
	struct retention_deferred *deferred;
	/* Captures that have seen the disk below its floor end with what they have; `space` NULL: there is room again. */
	void (*out_of_space)(struct server *server, const struct space *space);
};

struct retention *retention_of(const struct server *server);

/* Before the loop runs; takes over the settings and looks. */
int retention_init(struct server *server, void (*out_of_space)(struct server *server, const struct space *space));
/* After the catalogue has ended, while the loop still closes handles. */
void retention_deinit(struct server *server);
/* Takes over the settings, and begins a look. That costs little if nothing is exceeded. */
void retention_look(struct server *server);

/* The client that follows on `conn` is told of the capture and will read it. The capture stays while the client follows
 * and for a minute more, or until the connection closes, or the same process has its next capture. */
void retention_hold(struct server *server, uint64_t number, pid_t pid, struct conn *conn);

/* A capture under way has seen the disk below its floor: older captures are deleted for it, or, if there are none, it
 * ends with what it has. */
void retention_press(struct server *server);

/* Before a trigger: if the disk is below its floor and something can be deleted for it, the request waits until that is
 * done (true), and `resume` serves it then. `packet` is copied. */
typedef void retention_resume(struct conn *conn, const char *packet, size_t n);
bool retention_defers(struct conn *conn, retention_resume *resume, const char *packet, size_t n);

/* May a capture of this user begin? False with a sentence: the disk is below its floor and nothing can be deleted, or
 * pinned captures take the whole budget. */
bool retention_allows(const struct server *server, uid_t uid, char *sentence, size_t sentence_bytes);

#endif
