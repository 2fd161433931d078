/* known.h - facts that other records refer to: devices, contexts, streams and modules that CUPTI reports, mostly before
 * the recording begins, and the names of threads that made calls. They are kept, and written at the end, when there is
 * room. Any thread. */
#ifndef PROFD_AGENT_CUPTI_KNOWN_H
#define PROFD_AGENT_CUPTI_KNOWN_H

#include "layout.h"

#include <stdint.h>

struct sink_thread;

/* Forgets everything. */
void known_begin(void);
/* A record of one of the four kinds. */
void known_record(const struct cupti_layout *layout, const void *record);
/* The thread with this kernel tid has made a call; 0: ignored. */
void known_thread(uint32_t tid);
/* Writes all that is kept. */
void known_write(struct sink_thread *sink);

#endif
