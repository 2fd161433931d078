/* quantity.h - how people write numbers, durations and sizes, on a command line and in a configuration file; and how far a
 * word is from the one that was meant. Pure functions. */
#ifndef PROFD_PROTO_QUANTITY_H
#define PROFD_PROTO_QUANTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A decimal number without a sign. */
bool quantity_number(const char *text, int64_t *ret);
/* "2s", "500ms", "1m30s", "1.5h", "30d", "250us", "10ns"; "0". To ns. False where it is none, or too long for 63 bits. */
bool quantity_duration(const char *text, int64_t *ret_ns);
/* "4096", "64k", "64M", "1G", "64MiB" (powers of 1024). False where it is none. */
bool quantity_size(const char *text, int64_t *ret_bytes);

/* How many single-character edits lie between two words; `limit` + 1 where more than `limit`. */
unsigned word_distance(const char *a, const char *b, unsigned limit);

#endif
