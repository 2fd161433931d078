/* load.h - the breakdown of a capture file. */
#ifndef PROFD_STORE_BREAKDOWN_LOAD_H
#define PROFD_STORE_BREAKDOWN_LOAD_H

#include "breakdown.h"
#include "collections.h"

#include <sqlite3.h>

struct compilations;

/* Threads of autograd. A machine has one for each device. */
#define BREAKDOWN_FOLLOWERS 64

struct breakdown_capture {
	struct breakdown breakdown;
	int64_t *numbers;	 /* of the steps, in the process's own count; 0 = a window */
	int64_t *calls;		 /* rowid in api_calls of each of breakdown.calls */
	uint64_t timeless;	 /* operations for which CUPTI had no times */
	uint64_t unlaunched;	 /* operations in the recording whose call is missing */
	bool host, device;	 /* that side was recorded */
	bool window;		 /* no steps were known: the capture is judged as one window of time */
	uint64_t graph_launches; /* calls that launched a CUDA graph */
	char doubt
		[256]; /* why the causes of idle time are not known: all of it is IDLE_UNKNOWN then; empty: they are known */
	/* Threads that ran the backward for the step's thread: they are in the same phase. */
	uint32_t followers[BREAKDOWN_FOLLOWERS];
	size_t follower_count;
	struct compilations *compilations; /* by torch.compile (compilations.h); owned. NULL: they were not read */
	struct collections collections;	   /* of Python's garbage; owned */
	/* Owned; breakdown points into these. */
	struct activity activity;
	struct breakdown_step *steps;
	struct breakdown_call *call_items;
	struct breakdown_operation *operations;
};

/* Asked at every row that is read. False: reading ends with SQLITE_CORRUPT. */
struct breakdown_watch {
	bool (*row)(void *context);
	void *context;
	/* NULL: nobody is told of the pieces. If the capture turns out to be in doubt, their causes of idle time mean
	 * nothing. */
	const struct breakdown_listener *listener;
	/* The file is the program's own, and has a transaction that writes. Then pages.h may read it. */
	bool own;
};

/* Reads the capture and makes its breakdown. It only reads. False: SQLite's error (sqlite3_errcode), or SQLITE_NOMEM,
 * in *ret_error. `watch` may be NULL. Call breakdown_capture_free() afterwards in either case. */
bool breakdown_capture_load(sqlite3 *db, const struct breakdown_watch *watch, struct breakdown_capture *ret,
			    int *ret_error);
/* Reads only the steps, and which sides were recorded. */
bool breakdown_capture_steps(sqlite3 *db, const struct breakdown_watch *watch, struct breakdown_capture *ret,
			     int *ret_error);
/* The place that was asked for last; zeros at first. Mostly the next time is near, on the same thread. */
struct breakdown_asked {
	uint32_t number;
	const struct activity_thread *thread; /* the thread whose phases count for thread `number` */
	size_t near;
};
/* The phase of a thread at a time. The capture was read as a whole. */
enum phase breakdown_phase(const struct breakdown_capture *capture, struct breakdown_asked *asked, uint32_t thread,
			   int64_t time);
/* Did the thread run a backward for the one that steps? */
bool breakdown_follows(const struct breakdown_capture *capture, uint32_t thread);
/* The phases (bits) in which any thread was. */
unsigned breakdown_phases(const struct breakdown_capture *capture);
void breakdown_capture_free(struct breakdown_capture *capture);

#endif
