/* decimal.h - microseconds as a JSON number has them, in ns: read as a decimal, since a double is off by 250 ns at today's dates. */
#ifndef PROFD_CLIENT_IMPORT_DECIMAL_H
#define PROFD_CLIENT_IMPORT_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* text[0..n): a number as JSON writes it. What is finer than `digits` behind the point is rounded to the nearest, halves away from 0.
 * False: it does not fit into 62 bits. */
bool decimal_read(const char *text, size_t n, unsigned digits, int64_t *ret);

#endif
