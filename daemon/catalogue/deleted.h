/* deleted.h - which captures may be deleted and which are pinned; deleting one; and what the catalogue keeps about
 * deleted ones. The catalogue's thread. */
#ifndef PROFD_DAEMON_CATALOGUE_DELETED_H
#define PROFD_DAEMON_CATALOGUE_DELETED_H

#include "captures.h"
#include "eviction.h"

/* Every finished capture, oldest first; to be freed. */
int catalogue_kept(struct catalogue *catalogue, struct kept **ret, size_t *ret_count);
/* When the oldest capture that is not pinned was finished, CLOCK_REALTIME ns; 0 = there is none. */
uint64_t catalogue_oldest(struct catalogue *catalogue);
int catalogue_pin(struct catalogue *catalogue, uint64_t number, bool pinned);
/* Deletes the file, and moves the row to the table `deleted`. `by` NULL: the daemon does it. */
int catalogue_remove(struct catalogue *catalogue, uint64_t number, const uid_t *by, const char *reason);
/* The same where the file is gone already. */
int catalogue_forget(struct catalogue *catalogue, uint64_t number, const uid_t *by, const char *reason);
/* Deletes all rows of `deleted` except the newest `lines`. */
int catalogue_trim_deleted(struct catalogue *catalogue, uint64_t lines);

struct deleted_facts {
	uint64_t number;
	uid_t uid, by;
	bool by_daemon; /* else by `by` */
	pid_t pid;
	int32_t rank; /* -1 = none */
	enum capture_status status;
	uint64_t started, finished, at; /* CLOCK_REALTIME ns */
	uint64_t bytes;
	char user[32], by_user[32];
	char pids[PIDS_BYTES]; /* as in struct identity */
	char host[64], name[64], job[128], label[LABEL_BYTES], reason[REASON_BYTES];
};
/* Newest deletion first. filter->before is a time (at) here; else as catalogue_list. */
int catalogue_list_deleted(struct catalogue *catalogue, const struct catalogue_filter *filter,
			   struct deleted_facts *rows, unsigned room);
/* As catalogue_get. */
int catalogue_get_deleted(struct catalogue *catalogue, uint64_t number, struct deleted_facts *ret);

#endif
