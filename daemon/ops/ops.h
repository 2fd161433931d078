/* ops.h - what clients may ask for. Each op is one file of op/, named by the op's word and found by the build. Its
 * comment describes the request and the reply (docs/protocol.md describes what is common to all); `parse` reads the
 * request, `serve` answers. Loop's thread. */
#ifndef PROFD_DAEMON_OPS_OPS_H
#define PROFD_DAEMON_OPS_OPS_H

#include "proto/errors.h"

#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdio.h>

struct conn;
struct parse;
struct request;
struct server;

struct op {
	const char *word;
	const char *does; /* a line for --print-ops */
	/* Fills its members of `request`; NULL: it has none. Knows no server: any thread. */
	void (*parse)(struct parse *parse, struct request *request, const cJSON *object);
	/* `packet` is the request as it was received. The reply ends with conn_end or conn_error, now or later. */
	void (*serve)(struct conn *conn, struct request *request, const char *packet, size_t n);
	/* Called when a request was refused before `serve`; NULL: nothing to do then. */
	void (*refused)(struct server *server, enum error error);
};

/* NULL: this daemon has no op of that name. */
const struct op *op_find(const char *word);
/* A line for each: its word and what it does. */
void ops_print(FILE *to);

#endif
