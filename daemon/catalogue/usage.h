/* usage.h - how many finished captures each user has, and their bytes, without asking the disk: for op "status", metrics
 * and retention's budgets. Loop's thread. */
#ifndef PROFD_DAEMON_CATALOGUE_USAGE_H
#define PROFD_DAEMON_CATALOGUE_USAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct usage_owner {
	uid_t uid;
	uint64_t captures, bytes;
	uint64_t pinned_captures, pinned_bytes; /* of these */
};

struct server;
struct usage {
	struct usage_owner *owners;
	size_t count;
};

struct usage *usage_of(const struct server *server);

void usage_deinit(struct usage *usage);
void usage_add(struct usage *usage, uid_t uid, uint64_t captures, uint64_t bytes);
void usage_remove(struct usage *usage, uid_t uid, uint64_t captures, uint64_t bytes);
/* Adds to a user's number of pinned captures; with `pinned` false, subtracts. */
void usage_pin(struct usage *usage, uid_t uid, uint64_t captures, uint64_t bytes, bool pinned);
/* The sum of one user, or of all together. */
struct usage_owner usage_sum(const struct usage *usage, bool all, uid_t uid);

#endif
