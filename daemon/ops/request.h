/* request.h - one request of a client, parsed from hostile JSON (proto/requests.h says what stands in it). Knows no
 * sockets and no loop, so that it can be fuzzed alone. */
#ifndef PROFD_DAEMON_OPS_REQUEST_H
#define PROFD_DAEMON_OPS_REQUEST_H

#include "proto/errors.h"
#include "proto/limits.h"
#include "proto/requests.h"
#include "proto/schedule.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum request_op {
	REQUEST_NONE = 0,
#define OP(name) REQUEST_##name,
	REQUEST_OPS(OP)
#undef OP
};

#define REQUEST_TEXT_BYTES 128
#define REQUEST_ID_BYTES 32

struct request {
	enum request_op op;

	int32_t *pids; /* targets.pids, or the one "pid"; owned */
	size_t pid_count;
	bool all;
	char name[REQUEST_TEXT_BYTES]; /* glob; empty = none */
	char job[REQUEST_TEXT_BYTES];

	/* trigger */
	uint64_t wait_for, at_step, at_multiple, duration, timeout, max_events, max_bytes;
	struct schedule schedule;
	uint32_t collectors; /* bit set of enum collector */
	uint32_t options;    /* bit set of enum arm_option */
	char step_range[REQUEST_TEXT_BYTES], step_operator[REQUEST_TEXT_BYTES], step_optimizer[REQUEST_TEXT_BYTES];
	char label[REQUEST_TEXT_BYTES];
	bool follow;

	/* cancel, summary, open, rm, pin, unpin */
	char capture_id[REQUEST_ID_BYTES], trigger_id[REQUEST_ID_BYTES];
	char (*ids)[REQUEST_ID_BYTES]; /* owned */
	size_t id_count;

	bool keep; /* rm: for a snapshot's --keep */

	/* captures, deleted, audit */
	uint64_t limit;

	/* audit; `name` is the action */
	uint64_t since; /* ns ago; 0 = always */
	bool has_uid;
	uint32_t uid;
};

/* Parses a packet of n bytes. Returns 0, or the number of the error (USAGE, VERSION) with a sentence in `sentence`.
 * request_deinit afterwards in either case. */
enum error request_parse(struct request *ret, const char *packet, size_t n, char *sentence, size_t sentence_bytes);
void request_deinit(struct request *request);

#endif
