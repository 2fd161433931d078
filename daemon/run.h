/* run.h - the whole daemon: its rooms are opened, joined, run and closed, each in its turn. */
#ifndef PROFD_DAEMON_RUN_H
#define PROFD_DAEMON_RUN_H

#include "daemon/core/config.h"

struct run_options {
	bool user; /* a user's own daemon */
	bool verbose;
	const char *directory, *socket_path, *config_file; /* NULL: not given */
};

/* Returns the exit code. */
int run(const struct run_options *options, const struct config *config);

#endif
