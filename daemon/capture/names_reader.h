/* names_reader.h - the process that reads mangled names: the daemon's own program, started anew with one argument. It
 * has a socket and nothing else: no other descriptor, no system call that could open one, no memory beyond its stack,
 * and a limit on its time. Whatever a name does to it harms nothing else: the process is killed, the name stays
 * mangled, and another process is started. */
#ifndef PROFD_DAEMON_CAPTURE_NAMES_READER_H
#define PROFD_DAEMON_CAPTURE_NAMES_READER_H

#include "proto/limits.h"

#include <stdint.h>

#define NAMES_READER_ARGUMENT "--read-names"

/* The longest name that is read: all that an agent can send. */
#define NAMES_MANGLED_BYTES LIMIT_STRING_BYTES
/* Nobody could read a longer form. */
#define NAMES_TEXT_BYTES 16384

enum names_verdict {
	NAMES_NONE = 0,	   /* it is not a mangled name */
	NAMES_READ = 1,	   /* text[0..n) is its readable form */
	NAMES_REFUSED = 2, /* reading it takes too much time or memory */
};

/* The answer to a packet that is a name. */
struct names_answer {
	uint64_t spent_ns; /* of the processor */
	uint32_t verdict, n;
	char text[NAMES_TEXT_BYTES];
};

/* If the arguments are a reader's, works as one and never returns. First in main(). */
void names_reader(int argc, char **argv);

#endif
