/* capture.h - one capture from ARM to its row in the catalogue. Loop's thread; the ingest it owns runs on the pools.
 *
 *     ASKED --ARMED--> RUNNING --DONE, death, deadline--> ENDING (ingest drains) -> FINISHING (derive) -> STORING (row)
 *     ASKED --DECLINED--> DROPPED                          ORPHAN (file of an earlier daemon) --OFFER--> RUNNING, or ENDING
 *     RUNNING --the daemon is to be followed by another--> HANDOFF (ingest closes the file) -> forgotten */
#ifndef PROFD_DAEMON_CAPTURE_CAPTURE_H
#define PROFD_DAEMON_CAPTURE_CAPTURE_H

#include "ingest.h"
#include "registry.h"
#include "trigger.h"

enum capture_state {
	STATE_ASKED,
	STATE_RUNNING,
	STATE_ORPHAN,
	STATE_DROPPED,
	STATE_HANDOFF,
	STATE_ENDING,
	STATE_FINISHING,
	STATE_STORING,
};

struct capture {
	struct server *server;
	struct capture *next, *previous;
	struct capture *same_bucket; /* of live->by_number */
	struct process *process;     /* capture_set_process; NULL: gone, or not ours to talk to any more */
	struct capture *next_of_process, *previous_of_process;
	struct trigger *trigger;   /* NULL: none that is known any more */
	struct together *together; /* while `trigger` is not NULL: the group that begins with the same step; NULL =
				    * none */
	uint64_t armed_step;	   /* steps that had ended when its agent answered */
	struct quota_user *user;   /* who pays for it; NULL: nobody that is known */
	uint64_t memory;	   /* bytes that count for this user */
	enum capture_state state;
	struct capture_facts facts;
	struct message_arm arm;
	struct ingest *ingest; /* NULL while ORPHAN */
	struct store_collector collectors[COLLECTOR_COUNT];
	struct handoff handoff; /* what its file is to remember of it */
	struct message_done done;
	bool has_done;
	bool submitted;	      /* the ingest is on its pool */
	bool catalogued;      /* it has a row */
	bool followed_up;     /* the next cycle's segment is under way */
	bool noting;	      /* a note of it is being written (armed.h) */
	bool unanswered;      /* its trigger has not yet been told whether it is armed */
	bool unsent;	      /* ASKED, and ARM waits (arming_work) */
	bool held;	      /* its rows are in its file, which is finished once there is a note of the next cycle */
	uint64_t follows;     /* the number of the cycle before it, 0 = none here */
	uint64_t followed_by; /* the number of the cycle after it; 0 = none here */
	struct switching
		*switching; /* owned; this capture is the rest of another one with other collectors, and the client
			     * that asked waits; or NULL */
	char switched[REASON_BYTES];		   /* a sentence: of which capture it is the rest, or which is its
						    * rest; empty = neither */
	bool follow_failed;			   /* the next cycle's segment could not be made; it is tried again
						    * when this cycle has ended */
	uint64_t asked_at, deadline, cancelled_at; /* CLOCK_MONOTONIC ns; 0 = none */
	uint64_t time_limit;			   /* ns; the length of time that messages give for the deadline */
	enum cancel_reason cancel;
	char cancel_text[REASON_BYTES]; /* the sentence for REASON_DAEMON; empty: the usual one */
	uint64_t done_at;
	uint64_t segment_device, segment_inode; /* of an ORPHAN */
	bool begun;				/* of an ORPHAN: there are rows in its file */
	bool forgotten; /* it was an ORPHAN of which nothing was recorded: its cycle begins anew as another capture */
	int kept_fd;	/* of an ORPHAN: its segment, which the service manager has kept; -1 = none */
	bool kept;	/* the service manager has its segment */
	/* What the follower was last told. */
	uint64_t told_at;
	uint32_t told_steps, told_warmup, told_status;
	bool told_stored;  /* the follower knows that the capture is stored */
	bool unwritten;	   /* the catalogue could not write the row */
	uint64_t retry_at; /* CLOCK_MONOTONIC ns; 0 = the row is under way */
	struct work store_work;
};

/* Adds it to the captures under way. NULL where out of memory. */
struct capture *capture_add(struct server *server, const struct capture_facts *facts);
/* Frees it, and whatever it still has. */
void capture_remove(struct capture *capture);
/* From now on it is one of this process's captures; NULL: of no process's. */
void capture_set_process(struct capture *capture, struct process *process);
/* From now on it counts for this user. */
void capture_charge(struct capture *capture, struct quota_user *user, uint64_t bytes);
/* Hands its ingest to the pool, with the function that is to run. */
void capture_work(struct capture *capture, struct work_pool *pool, int64_t (*run)(struct work *work),
		  void (*done)(struct work *work));
/* Asks the agent to end it; `reason` is what the user will read. */
void capture_cancel(struct capture *capture, enum cancel_reason reason);
/* Deadlines, phases, progress. */
void capture_tick(struct capture *capture, uint64_t now);
/* The schedule that the process carries out now, NULL where none. */
struct capture *capture_of_process(const struct process *process);
/* Its status, as told by its state and by the phase that the agent has written. */
enum capture_status capture_status_now(const struct capture *capture);
/* It does not only wait for its steps: its agent switches collectors on, or has done so. */
bool capture_has_begun(const struct capture *capture);
/* Steps that are recorded by now. */
unsigned capture_steps(const struct capture *capture);
/* Is it armed or recording, or is its agent being asked? */
bool capture_is_running(const struct capture *capture);
struct capture *capture_find(struct server *server, uint64_t number);

/* Ends each recording whose ingest has seen less free space than the floor; it keeps what it has. `space` NULL: there
 * is room again. */
void captures_out_of_space(struct server *server, const struct space *space);

#endif
