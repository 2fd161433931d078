/* counters.h - what the daemon counts for its metrics. The code that does something adds to the counters; metrics/
 * reads them. Loop's thread, except for `flow`. */
#ifndef PROFD_DAEMON_CORE_COUNTERS_H
#define PROFD_DAEMON_CORE_COUNTERS_H

#include "histogram.h"
#include "proto/errors.h"
#include "proto/base/facts.h"

#include <stdatomic.h>

/* Why a capture was deleted: the configuration's key that asked for it, or a user. */
#define COUNTERS_DELETED(X)                                                                                            \
	X(store_bytes)                                                                                                 \
	X(store_bytes_user)                                                                                            \
	X(store_captures)                                                                                              \
	X(store_captures_user)                                                                                         \
	X(store_age)                                                                                                   \
	X(free_space)                                                                                                  \
	X(rm)                                                                                                          \
	X(other)
enum counters_deleted_by {
#define ROW(word) COUNTERS_DELETED_##word,
	COUNTERS_DELETED(ROW)
#undef ROW
		COUNTERS_DELETED_COUNT
};

/* Rows of proto/errors.def and of enum cancel_reason, with room. */
#define COUNTERS_ERRORS 40
#define COUNTERS_REASONS 16

/* What ingest threads add to. */
struct counters_flow {
	_Atomic uint64_t events, bytes;
};

struct counters {
	uint64_t captures[CAPTURE_STATUS_COUNT][COUNTERS_REASONS];
	uint64_t steps, events, lost[LOSS_COUNT], unwritten;
	uint64_t triggers[COUNTERS_ERRORS], refusals[COUNTERS_ERRORS]; /* triggers[0]: accepted */
	uint64_t deleted[COUNTERS_DELETED_COUNT], deleted_bytes[COUNTERS_DELETED_COUNT];
	struct histogram derive, latency, turn;
	struct counters_flow flow;
	uint64_t tick_due; /* CLOCK_MONOTONIC ns; 0 = none */
};

void counters_init(struct counters *counters);
/* The tick runs now, and wants to run again in `interval` ns (0: not). */
void counters_tick(struct counters *counters, uint64_t now, uint64_t interval);
/* Finished work has come back; it had waited for so many ns. */
void counters_late(struct counters *counters, uint64_t ns);
/* A capture is finished: its file is written, or there is none. `lost`: over all kinds; `taken`: records that had come
 * in; `finish_ns`: what putting them into order took. */
void counters_captured(struct counters *counters, const struct capture_facts *facts, const uint64_t lost[LOSS_COUNT],
		       uint64_t taken, uint64_t finish_ns);
/* A trigger is accepted (0), or refused as a whole. */
void counters_triggered(struct counters *counters, enum error error);
/* An audit line was written; `outcome` is the word of an error where something was refused. */
void counters_audited(struct counters *counters, const char *outcome);
/* Captures were deleted, because of `reason`: a word of COUNTERS_DELETED. */
void counters_deleted(struct counters *counters, const char *reason, uint64_t captures, uint64_t bytes);

#endif
