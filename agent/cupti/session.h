/* session.h - one session with CUPTI: who else is there, switching on, flushing, switching off. Everything that calls CUPTI is a
 * job for the guard (guard.h); the rest is the agent's thread's. */
#ifndef PROFD_AGENT_CUPTI_SESSION_H
#define PROFD_AGENT_CUPTI_SESSION_H

#include "agent/core/own.h"
#include <stddef.h>
#include <stdint.h>

#define SESSION_SENTENCE 248

struct session {
	/* Asked for. */
	uint32_t generation;
	int graphs_whole, all_calls, memory;
	int graphs_allowed; /* to be recorded as a whole */
	uint64_t boundary_patience;
	int attached; /* CUDA may have been in use before the agent came */

	/* What came of it. */
	char sentence[SESSION_SENTENCE]; /* why not, or what is to be known */
	uint32_t version;		 /* cuptiGetVersion */
	int driver;			 /* cuDriverGetVersion */
	uint64_t kinds;			 /* bit set of the activity kinds that are on */
	uint32_t kind_count;		 /* how many were */
	uint64_t refused;		 /* bit set of those that were wanted, and that CUPTI does not record */
	int shared;			 /* another client is there, too */
	uint64_t enable_ns;
	uint64_t on_at; /* CLOCK_MONOTONIC ns when all was on */
	int replaced;	/* another client's callbacks have taken the place of ours */
	int exhausted;	/* switched off early: CUPTI kept nearly all buffers */
	uint64_t exhausted_at;
	int left_on;	  /* kinds that CUPTI refused to switch off */
	int flush_result; /* the last answer to a flush that was not 0 */
	uint64_t dropped; /* records, by CUPTI's count */
};
OWN struct session session;

/* The rest of a sentence, cut where it does not fit. */
void session_say(const char *text);
void session_say_number(uint64_t number);

/* A sentence, with CUPTI's answer where that is not 0. Returns `error`. */
int session_refuse(int error, const char *what, int result);

/* --- jobs: 0 or a negative errno, with the reason in session.sentence --- */

/* Is the driver up? Loads nothing. */
int session_driver(void *unused);
/* After libcupti was loaded, once in a process: its version, names of calls, sizes of records. */
int session_learn(void *unused);
/* Would a session be possible now? others: not NULL where CUPTI's other clients are to be asked for. */
int session_ask(void *others);
/* What takes long the first time: CUPTI sets itself up, which may wait for all that the devices have to do; and memory for buffers. */
int session_ready(void *unused);
int session_start(void *unused);
/* A reading of the clock, and buffers in stock. `flush`: not NULL where records are to be handed out, too. */
int session_tick(void *flush);
int session_stop(void *unused);
/* `forced`: not NULL where also what has not ended is to be handed out. */
int session_flush(void *forced);
/* Gives back what the session took of CUPTI; the kinds are off. */
int session_end(void *unused);

/* The very last, after the session has ended: what takes long to switch off, and holds up no record. */
int session_last(void *unused);

/* When a call that was given up returns at last: switches off what is on. The guard's thread. */
void session_cleanup(void);

/* --- what CUPTI's callbacks have counted --- */
uint64_t session_foreign(void);
/* Buffers of ours that came back. */
uint64_t session_received(void);

#endif
