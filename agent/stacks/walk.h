/* walk.h - the Python stack of the calling thread. The frames do not change while the thread is in the recorder, so the
 * stack is exact. Python is called only for the address of the thread's state, and its lock is not needed. Each thread
 * remembers its stacks; memory is bounded. */
#ifndef PROFD_AGENT_STACKS_WALK_H
#define PROFD_AGENT_STACKS_WALK_H

#include "agent/sink/sink.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Can stacks be read here? Touches nothing. 0, or a negative errno with the reason in `sentence`. `modules`: can the
 * module of a call be found, too (modules.h)? The agent's thread, as for the next four. */
int walk_probe(bool modules, char *sentence, size_t bytes);
/* Prepares for that; result as above. */
int walk_arm(bool modules, char *sentence, size_t bytes);
void walk_begin(uint32_t recording);
void walk_disarm(void);
/* How many bytes of the job's memory it takes at most. */
uint64_t walk_bytes(void);

/* The number of the calling thread's stack (EVENT_STACK); a new stack is written. 0: there is no Python on this thread,
 * or the stack cannot be read; then `kind` is counted as stackless. Inside of the sink, between walk_begin and the end
 * of the recording. *ret_entered: how many calls of modules the stack has that no earlier stack of this thread had in
 * the recording; these are its innermost ones. 255 means 255 or more; 0 also where this Python does not tell. */
uint32_t walk_own(struct sink_thread *thread, uint8_t kind, uint8_t *ret_entered);

#endif
