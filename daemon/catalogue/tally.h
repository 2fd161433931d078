/* tally.h - how many finished captures each user has, and their bytes: what `status` tells, and budgets go by, without asking
 * the disk. Loop's thread. */
#ifndef PROFD_DAEMON_TALLY_H
#define PROFD_DAEMON_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct tally_owner {
	uid_t uid;
	uint64_t captures, bytes;
	uint64_t pinned_captures, pinned_bytes; /* of these */
};

struct tally {
	struct tally_owner *owners;
	size_t count;
};

void tally_deinit(struct tally *tally);
void tally_add(struct tally *tally, uid_t uid, uint64_t captures, uint64_t bytes);
void tally_remove(struct tally *tally, uid_t uid, uint64_t captures, uint64_t bytes);
/* So many more of a user's captures are pinned, or, with `pinned` false, fewer. */
void tally_pin(struct tally *tally, uid_t uid, uint64_t captures, uint64_t bytes, bool pinned);
/* Of one user, or of all together. */
struct tally_owner tally_sum(const struct tally *tally, bool all, uid_t uid);

#endif
