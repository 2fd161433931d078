/* audit_rows.h - the audit log in catalogue.db, and how much of it is kept. The catalogue's thread. */
#ifndef PROFD_DAEMON_CATALOGUE_AUDIT_ROWS_H
#define PROFD_DAEMON_CATALOGUE_AUDIT_ROWS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct catalogue;

#define AUDIT_SUBJECT_BYTES 160

struct audit_row {
	uint64_t number, at; /* at: CLOCK_REALTIME ns */
	uid_t uid;
	pid_t pid;
	char user[32];
	char action[16], subject[AUDIT_SUBJECT_BYTES], outcome[32];
	pid_t target_pid; /* 0: none */
	uid_t target_uid; /* (uid_t)-1: none, or not known */
	char target_user[32];
};

struct audit_filter {
	bool all; /* else what `uid` did, and what was done to that user's processes */
	uid_t uid;
	uid_t by_uid;	 /* (uid_t)-1: anybody */
	char action[16]; /* empty: any */
	uint64_t since;	 /* CLOCK_REALTIME ns */
	uint64_t before; /* only numbers below */
};

/* Adds a line. Every now and then deletes the lines beyond `keep`: the oldest of the user who has most, so that one
 * user's many lines do not displace those of others. 0 or a negative errno. */
int catalogue_audit_put(struct catalogue *catalogue, const struct audit_row *row, uint64_t keep);
/* Newest first; how many, or a negative errno. */
int catalogue_audit_list(struct catalogue *catalogue, const struct audit_filter *filter, struct audit_row *rows,
			 unsigned room);
#endif
