/* walk.h - the Python stack of the thread that asks. Its frames stand still while it is in the recorder, so that it is exact; nothing of
 * Python's is called but for the address of the thread's own state, and its lock is not needed. What a stack has been found to be is
 * remembered for each thread; memory is bounded. */
#ifndef PROFD_AGENT_STACKS_WALK_H
#define PROFD_AGENT_STACKS_WALK_H

#include "agent/sink/sink.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Can it be done here? Touches nothing. 0, or a negative errno with the reason in `sentence`. `modules`: and can calls of nn.Modules be
 * told apart by the module (modules.h)? The agent's thread, as the next four. */
int walk_probe(bool modules, char *sentence, size_t bytes);
/* Makes ready, as above. */
int walk_arm(bool modules, char *sentence, size_t bytes);
void walk_begin(uint32_t recording);
void walk_disarm(void);
/* Most bytes that it takes of the job's memory. */
uint64_t walk_bytes(void);

/* The number of the calling thread's stack (EVENT_STACK), which is written where it is new; 0: there is no Python on this thread. Where
 * it cannot be told it is 0, and `kind` is counted as stackless. Inside of the sink, between walk_begin and the end of the
 * recording. *ret_entered: how many calls of modules, the innermost ones, it has that no stack of this thread had before in the recording;
 * 255: or more, 0: also where this Python does not tell. */
uint32_t walk_own(struct sink_thread *thread, uint8_t kind, uint8_t *ret_entered);

#endif
