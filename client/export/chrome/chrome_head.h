/* chrome_head.h - what stands around the events of a trace. */
#ifndef PROFD_CLIENT_EXPORT_CHROME_CHROME_HEAD_H
#define PROFD_CLIENT_EXPORT_CHROME_CHROME_HEAD_H

#include "chrome.h"

/* Reads the threads' names and numbers, after nesting. 0 or a negative errno. */
int chrome_threads(struct chrome *c);
const struct chrome_thread *chrome_thread(const struct chrome *c, uint32_t thread);
/* Everything before the first event: metadata, the opening of traceEvents, the tracks' names. */
void chrome_put_head(struct chrome *c, struct buffer *b);
/* What a reader of the trace must know about losses: instant events over the whole trace. None if nothing was lost. */
void chrome_put_warnings(struct chrome *c, struct buffer *b);

#endif
