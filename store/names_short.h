/* names_short.h - a function's name out of its whole signature. Any thread, no locks, no state. */
#ifndef PROFD_STORE_NAMES_SHORT_H
#define PROFD_STORE_NAMES_SHORT_H

#include <stddef.h>

/* Without return type, parameters, template arguments and namespaces: a part of text[0..n). */
void names_short(const char *text, size_t n, size_t *ret_from, size_t *ret_n);

#endif
