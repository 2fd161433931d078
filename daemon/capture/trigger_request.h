/* trigger_request.h - what a user asks to record: which processes, which steps, and what of them. Plain values. */
#ifndef PROFD_DAEMON_CAPTURE_TRIGGER_REQUEST_H
#define PROFD_DAEMON_CAPTURE_TRIGGER_REQUEST_H

#include "proto/schedule.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REQUEST_TEXT_BYTES 128

struct trigger_request {
	/* The processes: by one of these. */
	int32_t *pids; /* owned */
	size_t pid_count;
	bool all;
	bool descendants;	       /* the caller, the program that it becomes, and all that this starts; the
				        * programs do not run yet */
	char name[REQUEST_TEXT_BYTES]; /* glob; empty = none */
	char job[REQUEST_TEXT_BYTES];

	uint64_t wait_for, at_step, at_multiple, duration, timeout, max_events, max_bytes;
	struct schedule schedule;
	uint32_t collectors;  /* bit set of enum collector */
	uint32_t options;     /* bit set of enum arm_option */
	uint32_t stacks_rate; /* 0 = the usual rate */
	char step_range[REQUEST_TEXT_BYTES], step_operator[REQUEST_TEXT_BYTES], step_optimizer[REQUEST_TEXT_BYTES];
	uint32_t batches; /* enum batches; 0 = they are not the steps */
	char label[REQUEST_TEXT_BYTES];
	bool follow;
};

/* Its steps are counted only while it is armed. */
static inline bool trigger_request_watches(const struct trigger_request *request)
{
	return *request->step_range || *request->step_operator || *request->step_optimizer || request->batches;
}

#endif
