/* known.h - facts that make the rest readable: devices, contexts, streams and modules that CUPTI tells of, mostly before the
 * recording begins, and the names of threads that made calls. Kept, and written at the end, when there is room. Any thread. */
#ifndef PROFD_AGENT_CUPTI_KNOWN_H
#define PROFD_AGENT_CUPTI_KNOWN_H

#include "layout.h"

#include <stdint.h>

struct sink_thread;

/* Forgets everything. */
void known_begin(void);
/* A record of one of the four kinds. */
void known_record(const struct cupti_layout *layout, const void *record);
/* A thread of this kernel tid has made a call; 0 is nobody. */
void known_thread(uint32_t tid);
/* Writes all that is kept. */
void known_write(struct sink_thread *sink);

#endif
