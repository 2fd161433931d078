/* quota.h - what one user may take of the daemon, and whose turn it is: connections, captures under way, their memory,
 * triggers, lines of the audit log, time of the loop. The limits are profd.conf's and may change while it runs. Root, and
 * the owner of a daemon of their own, are not limited. Loop's thread. */
#ifndef PROFD_DAEMON_CORE_QUOTA_H
#define PROFD_DAEMON_CORE_QUOTA_H

#include "proto/base/memory.h"
#include "proto/errors.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct server;
struct work;

/* Room for the sentence of a refusal; it fits into a REFUSE. */
#define QUOTA_SENTENCE_BYTES 248

#define QUOTA_LINE_KINDS 8
/* Lines that a user may still cause in the audit log this minute, and those that were left out of it. */
struct quota_lines {
	uint64_t since; /* CLOCK_MONOTONIC ns */
	unsigned done, refused;
	uint64_t left_out;
	struct {
		const char *action, *outcome;
		uint64_t count;
	} kinds[QUOTA_LINE_KINDS];
};

/* What is counted of one uid. It lives as long as something refers to it, and a minute longer, so that a user who comes
 * back does not find a fresh allowance of triggers. */
struct quota_user {
	struct quota_user *next; /* of its bucket */
	uid_t uid;
	bool exempt;
	unsigned references;
	uint64_t idle_since; /* CLOCK_MONOTONIC ns */
	unsigned connections, agents, refused;
	unsigned closing; /* descriptors from this user that are being closed */
	size_t queued;	  /* bytes that wait for this user's peers */
	unsigned captures;
	uint64_t memory;       /* bytes that these captures' segments may take */
	struct memory working; /* what is held besides, to put their records into order */
	unsigned waiting;      /* triggers that wait for processes */
	double triggers;       /* that may still come now */
	uint64_t triggers_at;
	uint64_t turn, turn_ns;
	unsigned questions; /* that the catalogue has; the user's further ones wait here: */
	struct work *first_question, *last_question;
	struct quota_lines lines;
};

#define QUOTA_BUCKETS 256
struct quota {
	struct quota_user *buckets[QUOTA_BUCKETS];
	uint64_t turn;
	uint64_t descriptors; /* that the process may have open */
	unsigned refused;     /* connections that are open only to be told why they have no place */
	unsigned left_out;    /* users of whom audit lines were left out */
	uint64_t swept_at;
};

void quota_init(struct server *server);
void quota_deinit(struct server *server);
/* Forgets users who have nothing here any more. For the tick. */
void quota_tick(struct server *server, uint64_t now);

/* The user, with a reference; NULL where out of memory. */
struct quota_user *quota_user(struct server *server, uid_t uid);
struct quota_user *quota_user_ref(struct quota_user *user);
void quota_user_unref(struct quota_user *user); /* takes NULL */

/* May this user have one connection more? ERROR_NONE and it is counted, or ERROR_QUOTA with a sentence. */
enum error quota_connect(struct server *server, struct quota_user *user, char sentence[QUOTA_SENTENCE_BYTES]);
void quota_disconnect(struct quota_user *user);
/* False where so many descriptors from this user cannot be closed that nothing more is heard from them. */
bool quota_descriptors(const struct quota_user *user);
/* Is there a place among the connections that are open only to be told why they have no place? If so it is counted. */
bool quota_refuse(struct server *server, struct quota_user *user);
void quota_refused(struct server *server, struct quota_user *user);
/* The connection is an agent's. A few places are kept for clients, so that a user with a great many processes can still
 * list and cancel. */
enum error quota_agent(struct server *server, struct quota_user *user, char sentence[QUOTA_SENTENCE_BYTES]);

/* One trigger more; it is counted where the answer is ERROR_NONE. `waits`: for processes that are not there yet. */
enum error quota_trigger(struct server *server, struct quota_user *user, bool waits,
			 char sentence[QUOTA_SENTENCE_BYTES]);
/* The same answer, and it is not counted. */
enum error quota_trigger_would(struct server *server, struct quota_user *user, bool waits,
			       char sentence[QUOTA_SENTENCE_BYTES]);
/* One capture more, with a segment of so many bytes. Not counted: quota_capture_begin does. */
enum error quota_capture(struct server *server, const struct quota_user *user, uint64_t bytes,
			 char sentence[QUOTA_SENTENCE_BYTES]);
void quota_capture_begin(struct server *server, struct quota_user *user, uint64_t bytes);
void quota_capture_end(struct quota_user *user, uint64_t bytes); /* takes NULL */

/* Bytes begin (or, negative, cease) to wait. False where the user has so many waiting that no more may. */
bool quota_queue(struct quota_user *user, int64_t bytes);

/* May this user be served in this turn of the loop? quota_spent: serving the user took so long. */
bool quota_turn(struct server *server, struct quota_user *user);
void quota_spent(struct quota_user *user, uint64_t ns);

#endif
