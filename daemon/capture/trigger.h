/* trigger.h - one request of a user to record: its targets, their answers, its deadline, and who follows it. Loop's
 * thread. */
#ifndef PROFD_DAEMON_CAPTURE_TRIGGER_H
#define PROFD_DAEMON_CAPTURE_TRIGGER_H

#include "daemon/core/reply.h"
#include "registry.h"
#include "trigger_request.h"

#include <sys/socket.h>

struct capture;
struct dry_run;
struct handoff;
struct together;

struct trigger {
	struct server *server;
	struct trigger *next, *previous;
	uint64_t number;
	struct conn *conn; /* NULL: nobody follows any more */
	struct trigger_request request;
	struct ucred by;
	bool admin;
	uint64_t pid_namespace;		      /* of the client that asked */
	struct quota_user *user;	      /* who pays */
	bool waits;			      /* for processes; it is counted among the user's triggers that do */
	uint64_t looked_at;		      /* CLOCK_MONOTONIC ns, for processes that it waits for */
	uint64_t began, deadline, wait_until; /* CLOCK_MONOTONIC ns; wait_until 0 = not waiting for processes */
	pid_t root;			      /* whose descendants are meant; 0 = nobody's */
	uint64_t root_start;		      /* its start time, clock ticks */
	uint64_t ranks_seen;	 /* CLOCK_MONOTONIC ns: when a rank among them had shown how long its steps take */
	unsigned waiting;	 /* ARMs without an answer, and the ARMs that are still to be sent, to these: */
	struct process **to_arm; /* by job; NULL = gone meanwhile; owned */
	size_t to_arm_from, to_arm_to;
	unsigned running; /* captures that are not stored yet */
	unsigned armed, refused;
	unsigned left_out;	   /* launchers and helpers of the job or name that is meant */
	struct together *together; /* owned */
	struct dry_run *dry_run;   /* NULL: processes are armed; else this is a dry run, and no process is armed */
	unsigned targets;	   /* that the client has been told of */
	struct identity target;	   /* the last of them; only pid and uid if it is not a registered process */
	unsigned stored;
	uint64_t *tried; /* serials of processes that were armed or refused, ascending; owned */
	size_t tried_count, tried_capacity;
	bool accepted_told, follow;
	struct put_trigger *unnoted; /* what is still to be written into the catalogue; owned */
	enum error first_error;
	char first_sentence[SENTENCE_BYTES];
	int32_t first_pid;
};

/* Serves op "trigger". Takes `wanted` over; `text` is the request as it was received. */
void trigger_start(struct conn *conn, struct trigger_request *wanted, const char *text, size_t n);
/* Sends as many ARMs as there is time for in one turn of the loop. */
void trigger_arm_more(struct server *server);
/* The agent has answered (error 0 = armed), or has not answered in time. */
void trigger_answered(struct trigger *trigger, struct capture *capture, enum error error, const char *sentence);
/* Another cycle of an accepted capture cannot be recorded: its follower is told. */
void trigger_cut_short(struct trigger *trigger, const struct process *process, enum error error, const char *sentence);
/* A capture of this trigger has its final row. */
void trigger_captured(struct trigger *trigger, const struct capture *capture);
/* The trigger of a capture that an earlier daemon has left. Captures of one trigger share it. No client follows it.
 * NULL: out of memory. */
struct trigger *trigger_resume(struct server *server, uint64_t number, uid_t uid, const struct handoff *handoff,
			       const char *label);
void trigger_tick(struct trigger *trigger, uint64_t now);
/* A connection that may have followed a trigger is gone; the captures go on. */
void trigger_unfollow(struct conn *conn);
/* Frees it; captures that it still has go on without a trigger. */
void trigger_free(struct trigger *trigger);

#endif
