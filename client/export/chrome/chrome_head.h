/* chrome_head.h - what stands around the events of a trace. */
#ifndef PROFD_CLIENT_EXPORT_CHROME_CHROME_HEAD_H
#define PROFD_CLIENT_EXPORT_CHROME_CHROME_HEAD_H

#include "chrome.h"

/* Reads the threads' names and numbers, after nesting. 0 or a negative errno. */
int chrome_threads(struct chrome *c);
const struct chrome_thread *chrome_thread(const struct chrome *c, uint32_t thread);
/* Writes c->place for its number of the process. */
void chrome_settle_place(struct chrome *c);
/* Everything before the first event: metadata (the first capture's, and what was lost of each), the opening of traceEvents. */
void chrome_put_head(struct chrome *const *all, size_t count, struct buffer *b);
/* The names of a capture's tracks. */
void chrome_put_tracks(struct chrome *c, struct buffer *b);
/* What a reader of the trace must know about losses: instant events over the whole trace. None if nothing was lost. */
void chrome_put_warnings(struct chrome *c, struct buffer *b);

#endif
