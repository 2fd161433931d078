/* garbage_watch.h - when Python's collector of garbage runs, and on which thread. While recording, the agent's thread looks at the collector's
 * flag every 10 ms, and more often while the flag is up. Nothing of Python's is called, and its lock is not taken. Agent's thread only. */
#ifndef PROFD_AGENT_STACKS_GARBAGE_WATCH_H
#define PROFD_AGENT_STACKS_GARBAGE_WATCH_H

#include <stdint.h>

/* Before a recording: forgets what was seen in the one before. */
void garbage_watch_begin(void);
/* Called while recording, each time that the agent's thread is awake. Returns the time of the next look, which may come earlier. */
uint64_t garbage_watch_work(uint64_t now);
/* Called after the recording, which ended at `end`, while the sink still takes records. */
void garbage_watch_end(uint64_t end);

#endif
