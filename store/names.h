/* names.h - readable names of kernels out of mangled ones, which are as hostile as whatever else an agent sends: they are read
 * in a process that can do nothing else (names_reader.h). */
#ifndef PROFD_DAEMON_NAMES_H
#define PROFD_DAEMON_NAMES_H

#include "names_reader.h"
#include "store.h"

struct names_text {
	size_t n;
	char text[NAMES_TEXT_BYTES];
};

/* Time on the processor that the names of one capture may take, ns. */
#define NAMES_BUDGET_NS 1000000000u

/* One capture's names. One thread at a time. */
struct names {
	uint64_t spent_ns, until;
	uint64_t refused; /* names that are mangled, and were not read: too long, or their reading took too much */
	int socket;	  /* to the reader; -1 = none runs */
	pid_t reader;
	unsigned readers; /* that were started */
	struct names_answer answer;
};
void names_begin(struct names *names);
void names_end(struct names *names);
/* The readable form of `mangled`. false: it is none that can be read, or it was refused. */
bool names_demangle(struct names *names, const char *mangled, struct names_text *ret);
/* Without return type, parameters, template arguments and namespaces: a part of text[0..n). */
void names_short(const char *text, size_t n, size_t *ret_from, size_t *ret_n);

/* Fills kernel_names for the names that temp.sums has of kernels (store_sums.h), and adds their texts to strings. *ret_refused: how
 * many were refused. 0 or a negative errno with store->sentence. */
int names_write(struct store *store, uint64_t *ret_refused);

#endif
