/* strip.h - pieces of time, as they are found, side by side. */
#ifndef PROFD_CLIENT_PAGE_STRIP_H
#define PROFD_CLIENT_PAGE_STRIP_H

#include "store/breakdown/breakdown.h"

struct strip;

struct strip *strip_new(void);
struct strip *strip_free(struct strip *strip); /* NULL */
/* Takes one piece: for struct breakdown_listener. */
void strip_take(void *strip, const struct breakdown_piece *piece);
/* From the first piece's start to the last one's end; false: there is none. */
bool strip_bounds(const struct strip *strip, int64_t *ret_start, int64_t *ret_end);

/* A side's pieces as text: a letter for the row and its length in ns to the base of 36, one after the other; "_" is time that is
 * in no piece. Pieces shorter than *ret_gathered are gathered, in the order of the rows, so that there are not more than `most`.
 * To be freed; NULL: there is no such side. */
char *strip_text(const struct strip *strip, int64_t device, size_t most, int64_t *ret_start, int64_t *ret_gathered);

#endif
