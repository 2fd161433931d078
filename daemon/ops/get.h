/* get.h - ops that ask for one finished capture by its id: summary, open. Loop's thread, unless said otherwise. */
#ifndef PROFD_DAEMON_OPS_GET_H
#define PROFD_DAEMON_OPS_GET_H

#include "daemon/catalogue/deleted.h"
#include "daemon/core/work.h"
#include "parse.h"
#include "proto/base/facts.h"

struct conn;
struct get_kind;
struct server;

struct get {
	struct work work;
	const struct get_kind *kind;
	struct server *server;
	struct conn *conn; /* a reference */
	uint64_t number;
	int found;	  /* 1; 0: there is none; or a negative errno */
	bool was_deleted; /* and `deleted` is what is known about it */
	struct capture_facts facts;
	struct deleted_facts deleted;
	/* `look` fills these, `send` sends them. */
	char *text;	/* owned */
	int fd;		/* owned; -1 = none */
	uint64_t bytes; /* of its file */
};

struct get_kind {
	const char *action; /* the op's word */
	/* The catalogue's thread. Only called for a finished capture that the client may see. */
	void (*look)(struct get *get);
	/* Ends the reply. */
	void (*send)(struct conn *conn, struct get *get);
};

/* The request's "capture_id". */
void get_parse(struct parse *parse, struct request *request, const cJSON *object);
/* Serves the client's request. `kind` is static. */
void get_serve(struct conn *conn, const struct get_kind *kind);

#endif
