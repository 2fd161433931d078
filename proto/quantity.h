/* quantity.h - reads numbers, durations and sizes as people write them on a command line and in a configuration file;
 * and tells how much two words differ. Pure functions. */
#ifndef PROFD_PROTO_QUANTITY_H
#define PROFD_PROTO_QUANTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A decimal number without a sign. */
bool quantity_number(const char *text, int64_t *ret);
/* "2s", "500ms", "1m30s", "1.5h", "30d", "250us", "10ns"; "0". In ns. False where it is no duration, or too long for 63
 * bits. */
bool quantity_duration(const char *text, int64_t *ret_ns);
/* "4096", "64k", "64M", "1G", "64MiB" (powers of 1024). False where it is no size. */
bool quantity_size(const char *text, int64_t *ret_bytes);

/* By how many single-character edits two words differ; `limit` + 1 if by more than `limit`. */
unsigned word_distance(const char *a, const char *b, unsigned limit);

#endif
