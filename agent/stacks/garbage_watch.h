/* garbage_watch.h - when Python's collector of garbage runs, and on which thread. The agent's thread looks at the collector's flag every 10 ms
 * of a recording, and more often while it runs. Nothing of Python's is called, and its lock is not taken. Agent's thread only. */
#ifndef PROFD_AGENT_STACKS_GARBAGE_WATCH_H
#define PROFD_AGENT_STACKS_GARBAGE_WATCH_H

#include <stdint.h>

/* Before the recording: forgets the last one's. */
void garbage_watch_begin(void);
/* While recording, each time that the agent's thread is awake. Returns when it wants to look again at the latest. */
uint64_t garbage_watch_work(uint64_t now);
/* After the recording, which ended at `end`, while the sink still takes records. */
void garbage_watch_end(uint64_t end);

#endif
