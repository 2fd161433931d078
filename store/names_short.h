/* names_short.h - finds a function's name in its whole signature. Any thread, no locks, no state. */
#ifndef PROFD_STORE_NAMES_SHORT_H
#define PROFD_STORE_NAMES_SHORT_H

#include <stddef.h>

/* The name, without return type, parameters, template arguments and namespaces, is a part of text[0..n). */
void names_short(const char *text, size_t n, size_t *ret_from, size_t *ret_n);

#endif
