/* names.h - readable names of kernels out of mangled ones, which are as hostile as whatever else an agent sends. */
#ifndef PROFD_DAEMON_NAMES_H
#define PROFD_DAEMON_NAMES_H

#include "store.h"

#define NAMES_TEXT_BYTES 16384

struct names_text {
	size_t n;
	char text[NAMES_TEXT_BYTES];
};

/* Time on the processor that the names of one capture may take, ns. */
#define NAMES_BUDGET_NS 1000000000u

/* A thread's demangler: all of it on the thread that has begun it. */
struct names {
	uint64_t spent_ns;
	void *timer; /* timer_t; NULL = none could be had: nothing is demangled */
};
void names_begin(struct names *names);
void names_end(struct names *names);
/* The readable form of `mangled`. false: it is none that can be read, is too long, or takes too long. */
bool names_demangle(struct names *names, const char *mangled, struct names_text *ret);
/* Without return type, parameters, template arguments and namespaces: a part of text[0..n). */
void names_short(const char *text, size_t n, size_t *ret_from, size_t *ret_n);

/* Fills kernel_names for the names that temp.sums has of kernels (store_sums.h), and adds their texts to strings. 0 or a negative
 * errno with store->sentence. */
int names_write(struct store *store);

#endif
