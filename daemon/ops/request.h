/* request.h - one request of a client, parsed from hostile JSON (docs/protocol.md). Knows no sockets and no loop, so that
 * it can be fuzzed alone. */
#ifndef PROFD_DAEMON_OPS_REQUEST_H
#define PROFD_DAEMON_OPS_REQUEST_H

#include "daemon/capture/switching.h"
#include "daemon/capture/trigger_request.h"
#include "proto/errors.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REQUEST_ID_BYTES 32

struct op;

/* An op's `parse` fills its own members; the rest is 0. */
struct request {
	const struct op *op; /* NULL: the request names no known op */
	struct trigger_request trigger;
	struct switching_wish wish; /* set */

	int32_t pid; /* 0 = none */
	bool all;
	/* Globs; empty = none. */
	char name[REQUEST_TEXT_BYTES], job[REQUEST_TEXT_BYTES], label[REQUEST_TEXT_BYTES];
	char capture_id[REQUEST_ID_BYTES], trigger_id[REQUEST_ID_BYTES];
	char (*ids)[REQUEST_ID_BYTES]; /* owned */
	size_t id_count;
	bool keep;	/* rm: asked for by a snapshot's --keep */
	uint64_t limit; /* of rows; 0 = the usual */

	/* audit */
	char action[REQUEST_TEXT_BYTES];
	uint64_t since; /* ns ago; 0 = always */
	bool has_uid;
	uint32_t uid;
};

/* Parses a packet of n bytes. Returns 0, or the number of the error (USAGE, VERSION) with a sentence in `sentence`.
 * request_deinit afterwards in either case. */
enum error request_parse(struct request *ret, const char *packet, size_t n, char *sentence, size_t sentence_bytes);
void request_deinit(struct request *request);

#endif
