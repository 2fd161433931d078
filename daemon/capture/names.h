/* names.h - makes mangled names of kernels readable. Like all that an agent sends, a name may be hostile: it is read in
 * a process that can do nothing else (names_reader.h). */
#ifndef PROFD_DAEMON_CAPTURE_NAMES_H
#define PROFD_DAEMON_CAPTURE_NAMES_H

#include "names_reader.h"
#include "store/store.h"

#include <sys/types.h>

struct names_text {
	size_t n;
	char text[NAMES_TEXT_BYTES];
};

/* Time on the processor that the names of one capture may take, ns. */
#define NAMES_BUDGET_NS 1000000000u

/* One capture's names. One thread at a time. */
struct names {
	uint64_t spent_ns, until;
	uint64_t refused; /* mangled names that were not read: too long, or reading took too much */
	int socket;	  /* to the reader; -1 = none runs */
	pid_t reader;
	unsigned readers; /* that were started */
	struct names_answer answer;
};
void names_begin(struct names *names);
void names_end(struct names *names);
/* The readable form of `mangled`. False: it is not a mangled name, or it was refused. */
bool names_demangle(struct names *names, const char *mangled, struct names_text *ret);

/* All of this for the store, which calls it while it finishes a capture. */
extern const struct store_demangler names_demangler;

#endif
