/* reply.h - what a client is answered: rows, then an end or an error (docs/protocol.md). Loop's thread. */
#ifndef PROFD_DAEMON_CORE_REPLY_H
#define PROFD_DAEMON_CORE_REPLY_H

#include "proto/errors.h"

#include <cjson/cJSON.h>
#include <stdint.h>

struct conn;

/* A row's beginning: {"row": word}. */
cJSON *conn_row_new(const char *word);
/* Sends a row and deletes it. */
void conn_row(struct conn *conn, cJSON *row);
/* The same with a descriptor, which stays the caller's. */
void conn_row_with(struct conn *conn, cJSON *row, int fd);
/* Ends the request with {"end": true, ...}; `end` may be NULL, is deleted. The next request is read. */
void conn_end(struct conn *conn, cJSON *end);
/* Ends the request with an error; `pid` of a process that it speaks of, 0 = none. */
void conn_error(struct conn *conn, enum error error, const char *detail, int32_t pid);

/* The sentence of an error, %s replaced by `detail`. */
#define SENTENCE_BYTES 512
void error_text(enum error error, const char *detail, char ret[SENTENCE_BYTES]);

#endif
