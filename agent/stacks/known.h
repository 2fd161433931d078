/* known.h - stacks that have been written in this recording: each has a number, and is written once. Memory is bounded, and
 * taken when a capture is armed. The agent's thread only. */
#ifndef PROFD_AGENT_STACKS_KNOWN_H
#define PROFD_AGENT_STACKS_KNOWN_H

#include "proto/python/code.h"

#include "agent/sink/sink.h"

/* 0 or a negative errno: no memory. */
int known_take(void);
void known_give_back(void);
uint64_t known_bytes(void);

/* Another recording begins: nothing is known. */
void known_forget(void);

enum known_result {
	KNOWN_OK,
	KNOWN_GONE,    /* a function is not there any more, or was torn: the frames are to be read again */
	KNOWN_FULL,    /* more stacks than are kept */
	KNOWN_NO_ROOM, /* the segment has none */
};
/* The number of the stack, whose innermost frame comes first; 0 without a frame. What is new of it is written through `own`. */
enum known_result known_stack(struct python *python, struct sink_thread *own, const struct python_frame *frames,
			      size_t count, uint32_t *ret);

#endif
