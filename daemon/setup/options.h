/* options.h - the rows of options.def as a table. No code. */
#ifndef PROFD_DAEMON_SETUP_OPTIONS_H
#define PROFD_DAEMON_SETUP_OPTIONS_H

#include <stddef.h>

struct daemon_option {
	int code;
	const char *name;
	const char *argument; /* NULL: it takes none */
	const char *help;
};

static const struct daemon_option daemon_options[] = {
#define OPTION(code, name, argument, help) {code, name, argument, help},
#include "options.def"
};

#define DAEMON_OPTION_COUNT (sizeof daemon_options / sizeof *daemon_options)

#endif
