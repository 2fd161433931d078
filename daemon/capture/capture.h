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
	struct together *together; /* while `trigger` is: with whom it begins; NULL = by itself */
	uint64_t armed_step;	   /* steps that had ended when its agent answered */
	struct quota_user *user;   /* who pays for it; NULL: nobody that is known */
	uint64_t memory;	   /* bytes that it counts for there */
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
	bool unanswered;      /* its trigger is still to be told whether it is armed */
	bool unsent;	      /* ASKED, and ARM waits (arming_work) */
	bool held;	      /* its rows are in; it is finished once there is a note of the next cycle */
	uint64_t follows;     /* the number of the cycle before it, 0 = none here */
	uint64_t followed_by; /* the number of the cycle after it; 0 = none here */
	struct switching
		*switching; /* owned: it is the rest of another with other collectors, and who asked waits; or NULL */
	char switched[REASON_BYTES];		   /* of which it is the rest, or what its rest is; empty = neither */
	bool follow_failed;			   /* it could not be made; once more when this cycle has ended */
	uint64_t asked_at, deadline, cancelled_at; /* CLOCK_MONOTONIC ns; 0 = none */
	uint64_t time_limit;			   /* ns; what the deadline is called */
	enum cancel_reason cancel;
	char cancel_text[REASON_BYTES]; /* what is said of REASON_DAEMON; empty: what is always said */
	uint64_t done_at;
	uint64_t segment_device, segment_inode; /* of an ORPHAN */
	bool begun;				/* of an ORPHAN: there are rows in its file */
	bool forgotten; /* it was an ORPHAN of which nothing was recorded: its cycle begins anew as another capture */
	int kept_fd;	/* of an ORPHAN: its segment, which the service manager has kept; -1 = none */
	bool kept;	/* the service manager has its segment */
	/* What was last told to the follower. */
	uint64_t told_at;
	uint32_t told_steps, told_warmup, told_status;
	bool told_stored;  /* the follower knows */
	bool unwritten;	   /* the catalogue would not take the row */
	uint64_t retry_at; /* CLOCK_MONOTONIC ns; 0 = the row is under way */
	struct work store_work;
};

/* Takes it among those under way. NULL where out of memory. */
struct capture *capture_add(struct server *server, const struct capture_facts *facts);
/* Frees it, and whatever it still has. */
void capture_remove(struct capture *capture);
/* From now on it is among this process's captures; NULL: among nobody's. */
void capture_set_process(struct capture *capture, struct process *process);
/* From now on it counts for this user. */
void capture_charge(struct capture *capture, struct quota_user *user, uint64_t bytes);
/* Hands its ingest to the pool, with what it is to do. */
void capture_work(struct capture *capture, struct work_pool *pool, int64_t (*run)(struct work *work),
		  void (*done)(struct work *work));
/* Asks the agent to end it; `reason` is what the user will read. */
void capture_cancel(struct capture *capture, enum cancel_reason reason);
/* Deadlines, phases, progress. */
void capture_tick(struct capture *capture, uint64_t now);
/* The schedule that the process carries out now, NULL where none. */
struct capture *capture_of_process(const struct process *process);
/* The status word's number, with what the agent says of its phase. */
enum capture_status capture_status_now(const struct capture *capture);
/* It does not only wait for its steps: its agent switches collectors on, or has done so. */
bool capture_has_begun(const struct capture *capture);
/* Steps that are recorded by now. */
unsigned capture_steps(const struct capture *capture);
/* Is it still the agent's turn? */
bool capture_is_running(const struct capture *capture);
struct capture *capture_find(struct server *server, uint64_t number);

/* A recording that has seen the disk below the floor ends with what it has; `space` NULL: there is room again. */
void captures_out_of_space(struct server *server, const struct space *space);

#endif
