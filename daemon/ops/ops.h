/* ops.h - what clients may ask for. Each op is one file of op/, called as the op's word, and found by the build: its
 * comment says what stands in the request and in the reply (docs/protocol.md says what is common to all), `parse` reads
 * the request, `serve` answers. Loop's thread. */
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
	/* Fills what it needs of request; NULL: nothing. No server: any thread. */
	void (*parse)(struct parse *parse, struct request *request, const cJSON *object);
	/* `packet` is the request as it came. The reply ends with conn_end or conn_error, now or later. */
	void (*serve)(struct conn *conn, struct request *request, const char *packet, size_t n);
	/* It was refused before `serve`; NULL: nobody wants to know. */
	void (*refused)(struct server *server, enum error error);
};

/* NULL where this daemon has none of that word. */
const struct op *op_find(const char *word);
/* A line for each: its word and what it does. */
void ops_print(FILE *to);

#endif
