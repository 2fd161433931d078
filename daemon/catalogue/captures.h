/* captures.h - the catalogue's rows of captures. The catalogue's thread. */
#ifndef PROFD_DAEMON_CATALOGUE_CAPTURES_H
#define PROFD_DAEMON_CATALOGUE_CAPTURES_H

#include "proto/base/facts.h"
#include "usage.h"

#include <sqlite3.h>

struct catalogue;

uint64_t catalogue_last_capture(struct catalogue *catalogue);
/* Finished captures and their bytes, user by user. */
void catalogue_each_owner(struct catalogue *catalogue, void (*callback)(void *context, const struct usage_owner *owner),
			  void *context);
/* 0 or a negative errno. */
int catalogue_put_capture(struct catalogue *catalogue, const struct capture_facts *facts);
int catalogue_put_after(struct catalogue *catalogue, uint64_t number, uint64_t step_after);
/* 1 with *ret, 0 where there is none, or a negative errno. */
int catalogue_get(struct catalogue *catalogue, uint64_t number, struct capture_facts *ret);
/* The summary in a finished capture's file (free() it); NULL: there is none. */
char *catalogue_read_summary(struct catalogue *catalogue, uint64_t number);

struct catalogue_filter {
	bool all; /* of every user */
	uid_t uid;
	pid_t pid;		/* 0 = any */
	bool own;		/* `pid` is one of the daemon's own pid namespace */
	uint64_t pid_namespace; /* else of this one */
	char name[128], job[128], label[128];
	uint64_t before;  /* only numbers below */
	uint64_t trigger; /* 0 = any */
};
/* Fills at most `room` rows, newest first; returns how many, or a negative errno. */
int catalogue_list(struct catalogue *catalogue, const struct catalogue_filter *filter, struct capture_facts *rows,
		   unsigned room);

/* The part of a filter that is the same for `captures` and `deleted`; ?7 is `before`, ?8 `room`, ?9 the trigger. */
#define CATALOGUE_FILTER                                                                                               \
	"(?1 OR uid = ?2) AND (?3 = 0 OR iif(?10 = '', pid = ?3, instr(pids, ?10))) AND (?4 = '' OR name GLOB ?4) "    \
	"AND (?5 = '' OR job GLOB ?5) AND (?6 = '' OR label GLOB ?6)"
void catalogue_bind_filter(sqlite3_stmt *s, const struct catalogue_filter *filter, unsigned room);

#endif
