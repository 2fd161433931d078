/* session.h - one session with CUPTI: looks for other clients, switches on, flushes, switches off. All functions that
 * call CUPTI are jobs of the guard (guard.h); the others run on the agent's thread. */
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
	int attached; /* the process may have used CUDA before the agent came */

	/* What came of it. */
	char sentence[SESSION_SENTENCE]; /* why it failed, or what a user should know */
	uint32_t version;		 /* cuptiGetVersion */
	int driver;			 /* cuDriverGetVersion */
	uint64_t kinds;			 /* bit set of the activity kinds that are on */
	uint32_t kind_count;		 /* how many were switched on */
	uint64_t refused;		 /* bit set of the wanted kinds that CUPTI does not record */
	int shared;			 /* another client uses CUPTI, too */
	uint64_t enable_ns;
	uint64_t on_at; /* CLOCK_MONOTONIC ns when everything was on */
	int replaced;	/* another client's callbacks have replaced ours */
	int exhausted;	/* switched off early: CUPTI kept nearly all buffers */
	uint64_t exhausted_at;
	int left_on;	  /* kinds that CUPTI refused to switch off */
	int flush_result; /* the last answer to a flush that was not 0 */
	uint64_t dropped; /* records, by CUPTI's count */
};
OWN struct session session;

/* Adds to the sentence, which is cut where it does not fit. */
void session_say(const char *text);
void session_say_number(uint64_t number);

/* Sets the sentence, with CUPTI's answer where that is not 0. Returns `error`. */
int session_refuse(int error, const char *what, int result);

/* --- jobs: 0 or a negative errno, with the reason in session.sentence --- */

/* Is the driver up? Loads nothing. */
int session_driver(void *unused);
/* After libcupti was loaded: learns its version, and once in a process the names of calls and the sizes of records. */
int session_learn(void *unused);
/* Would a session be possible now? `others` not NULL: also looks for CUPTI's other clients. */
int session_ask(void *others);
/* Does what takes long the first time: CUPTI sets itself up, which may wait until the devices have done all their work;
 * and buffers get memory. */
int session_ready(void *unused);
int session_start(void *unused);
/* Reads the clock, and keeps buffers in stock. `flush` not NULL: also asks CUPTI for complete records. */
int session_tick(void *flush);
int session_stop(void *unused);
/* Asks CUPTI for records. `forced` not NULL: also for those of operations that have not ended. */
int session_flush(void *forced);
/* Gives back everything that the session took from CUPTI. The kinds are off already. */
int session_end(void *unused);

/* After the session has ended: switches off the kind that takes long. No record waits for it. */
int session_last(void *unused);

/* A call that was given up has returned at last: switches off the kinds that are on. The guard's thread. */
void session_cleanup(void);

/* --- what CUPTI's callbacks have counted --- */
uint64_t session_foreign(void);
/* Buffers of ours that came back. */
uint64_t session_received(void);

#endif
