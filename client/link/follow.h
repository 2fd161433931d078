/* follow.h - follows a trigger from its request to its last capture: sends it to the daemons, shows what goes on,
 * cancels on Ctrl-C, and keeps the results. */
#ifndef PROFD_CLIENT_LINK_FOLLOW_H
#define PROFD_CLIENT_LINK_FOLLOW_H

#include "connection.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FOLLOW_ID_BYTES 64

struct followed {
	char id[FOLLOW_ID_BYTES];
	unsigned daemon; /* index */
	int64_t pid;
	int64_t rank; /* -1 = none */
	char status[16];
	bool window;
	int64_t step, of, warmup_step;
	int64_t since;	 /* CLOCK_MONOTONIC: when a window began */
	cJSON *captured; /* CAPTURE, once it is finished */
};

/* How the answer of one daemon is got. If a daemon ends, the next one (after a restart) is asked for the captures of
 * the trigger until they are finished. */
struct follow_link {
	enum { LINK_FOLLOWS, LINK_LOST, LINK_RESTS, LINK_ASKED, LINK_LATER } state;
	int64_t at; /* CLOCK_MONOTONIC ns: LOST, given up then; RESTS, asked again then; LATER, the request is sent again then */
	int64_t agents_until; /* until then agents may come back to this daemon */
	const cJSON *request;
	struct failure failure; /* what is said where no other daemon comes */
	unsigned tries;
	bool unfinished; /* the answer under way has told of a capture that is not finished */
};

struct follow {
	struct daemons *daemons;
	char wanted[96]; /* who is waited for, in words */
	bool follow;
	bool window;	    /* a window of time is recorded, no steps */
	int64_t give_up_ns; /* from now; then the daemon is taken for stuck */

	struct followed *captures;
	size_t count;
	struct failure *refused;
	size_t refused_count;
	cJSON *left_out; /* launchers and helpers that were left out: {"pid", "name", "role"} */
	cJSON *together; /* which ranks record the same steps, and why not: {"job", "processes", "at_step", "message"} */
	cJSON *switched; /* captures that went on as others, with other collectors: the members of docs/protocol.md's row */
	struct failure failure; /* of a whole daemon, where nothing came of it */
	char trigger_id[DAEMONS_MAX][FOLLOW_ID_BYTES];
	bool open[DAEMONS_MAX]; /* an answer is under way */
	struct follow_link links[DAEMONS_MAX];
	size_t kept_rows; /* of all answers, those that have not gone with their packets */
	struct kept kept[DAEMONS_MAX];
	bool cancelled; /* by Ctrl-C */
	bool timed_out; /* by give_up_ns */
	bool cut_off;	/* a daemon closed the connection */
};

/* Sends request[i] to daemon i (NULL: not to this one) and works until all have ended. */
void follow_run(struct follow *follow, cJSON *const request[DAEMONS_MAX]);
void follow_deinit(struct follow *follow);

#endif
