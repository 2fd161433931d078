/* live.h - what is under way: the processes that are connected, triggers, captures, questions to agents, and the threads that work
 * on captures. Loop's thread. */
#ifndef PROFD_DAEMON_CAPTURE_LIVE_H
#define PROFD_DAEMON_CAPTURE_LIVE_H

#include "announced.h"
#include "daemon/core/calls.h"
#include "daemon/core/work.h"

#include <stdbool.h>
#include <stdint.h>

struct capture;
struct probe;
struct process;
struct server;
struct trigger;

struct numbers {
	int fd;		/* of the store's file "numbers"; -1 = there is none */
	uint64_t limit; /* numbers up to this one are set aside */
	uint64_t wanted;
	struct work work;
	bool writing;
};

struct live {
	struct server *server;
	struct process *processes;
	unsigned process_count;
	uint64_t next_serial;
	struct trigger *triggers;
	struct capture *captures; /* that are not in their final state */
	unsigned capture_count;
	struct capture **by_number; /* buckets; a power of two, at least as many as captures */
	size_t buckets;
	uint64_t next_capture, next_trigger;
	struct numbers numbers;
	struct probe *probes;
	struct announced announced;
	uint64_t arm_ns;	/* how long the slowest of the last agents took to answer ARM */
	uint64_t orphans_until; /* CLOCK_MONOTONIC ns */

	struct work_pool note_pool, ingest_pool, finish_pool;
	struct work trim; /* of the heap, when the last capture has gone */
	struct work arm_more;
	bool trimming, arming;
	unsigned trim_peak; /* captures at a time, the most since the last trim */
};

struct live *live_of(const struct server *server);

/* Starts the pools. 0 or a negative errno. */
int live_start(struct server *server);
void live_tick(struct server *server, uint64_t now);
/* How often live_tick has to run. */
enum pace live_pace(const struct server *server);
/* The daemon begins to end: running captures are cancelled, unless another daemon takes them over. */
void live_stopping(struct server *server);
/* While the daemon ends: leaves to the next daemon what can be left. Returns whether there is work to wait for. Orphans
 * are no such work: they are left to the next daemon. */
bool live_has_work(struct server *server);
/* Makes the loop send more ARMs in its next turn. */
void live_arm_more(struct server *server);
/* A capture has gone. If it was the last one, or the last of many while only a few go on, the heap is given back. */
void live_trim(struct server *server);

/* The end, in this order. Captures that could not end in time stay as partial files, which the next daemon takes up: */
void live_abandon(struct server *server);
/* Do threads still put captures into order, while another daemon is to follow, which will do that work again? */
bool live_is_finishing(struct server *server);
/* Both wait for threads of pools. */
void live_end_ingest(struct server *server);
void live_end_finish(struct server *server);
/* When the loop has closed its handles. */
void live_deinit(struct server *server);

#endif
