/* pickle.h - writes values as Python's pickle, protocol 2, with the opcodes that torch's page for memory snapshots reads: no others. What is
 * written once can be named by its number afterwards. One thread. */
#ifndef PROFD_CLIENT_EXPORT_MEMORY_VIZ_PICKLE_H
#define PROFD_CLIENT_EXPORT_MEMORY_VIZ_PICKLE_H

#include "client/export/buffer.h"

#include <stdint.h>

struct pickle {
	struct buffer *to;
	uint32_t kept; /* values that have a number */
};

void pickle_begin(struct pickle *pickle, struct buffer *to);
void pickle_end(struct pickle *pickle);

void pickle_int(struct pickle *pickle, int64_t value);
void pickle_false(struct pickle *pickle);
/* What is no UTF-8 becomes U+FFFD. */
void pickle_text(struct pickle *pickle, const char *text);

/* Keys and values in turn, or elements, follow. Of a list any number of such parts: the first is opened by pickle_list(), each other one
 * by pickle_more(). */
void pickle_dict(struct pickle *pickle);
void pickle_dict_end(struct pickle *pickle);
void pickle_list(struct pickle *pickle);
void pickle_more(struct pickle *pickle);
void pickle_list_end(struct pickle *pickle);

/* The value that was ended last gets this number, from 1 on. */
uint32_t pickle_keep(struct pickle *pickle);
void pickle_kept(struct pickle *pickle, uint32_t number);

#endif
