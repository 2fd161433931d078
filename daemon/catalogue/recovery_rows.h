/* recovery_rows.h - what recovery.h needs to know of the catalogue and the captures' files. Before the catalogue's
 * thread exists. */
#ifndef PROFD_DAEMON_CATALOGUE_RECOVERY_ROWS_H
#define PROFD_DAEMON_CATALOGUE_RECOVERY_ROWS_H

#include "proto/base/facts.h"

#include <sys/stat.h>

struct catalogue;

/* All between these two calls is one transaction. */
void catalogue_recovery_begin(struct catalogue *catalogue);
void catalogue_recovery_end(struct catalogue *catalogue);

struct catalogue_row {
	uint64_t number, bytes;
	bool finished;
	bool failed; /* it has no file */
	bool seen;   /* the caller's */
};
/* All captures by number; to be freed. 0 or a negative errno. */
int catalogue_rows(struct catalogue *catalogue, struct catalogue_row **ret, size_t *ret_count);
/* Is <number>.db a regular file, and at least as long as its header says? One block is read. 0 with its facts, or
 * -EPROTO with `why`. */
int catalogue_check_file(const struct catalogue *catalogue, uint64_t number, struct stat *ret, char *why,
			 size_t why_bytes);
/* What a finished capture's file <number>.db says of itself, without reading its rows. -EPROTO with `why` where it is
 * damaged or no capture, -EOPNOTSUPP where a newer release wrote it. */
int catalogue_from_file(struct catalogue *catalogue, uint64_t number, struct capture_facts *ret, char *why,
			size_t why_bytes);
/* Makes the row that of a failed capture without a file. */
int catalogue_spoil(struct catalogue *catalogue, uint64_t number, const char *reason);
/* Captures that an earlier daemon left unfinished and of which no file is left become failed. */
int catalogue_close_lost(struct catalogue *catalogue, bool (*has_file)(void *context, uint64_t number), void *context);

#endif
