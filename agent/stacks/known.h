/* known.h - stacks that have been written in this recording: each has a number, and is written once. Memory is bounded, and
 * taken when a capture is armed. */
#ifndef PROFD_AGENT_STACKS_KNOWN_H
#define PROFD_AGENT_STACKS_KNOWN_H

#include "proto/python/code.h"

#include "agent/sink/sink.h"

/* For each of those who use it, from arm to disarm: 0 or a negative errno (no memory). The agent's thread. */
int known_take(void);
void known_give_back(void);
/* The share of one of its users. */
uint64_t known_bytes(void);

/* A recording begins, with this generation: nothing is known, but for what another user has had written in it. The agent's thread. */
void known_start(uint32_t recording);

enum known_result {
	KNOWN_OK,
	KNOWN_GONE,    /* a function is not there any more, or was torn: the frames are to be read again */
	KNOWN_FULL,    /* more stacks than are kept */
	KNOWN_NO_ROOM, /* the segment has none */
};

/* Texts are ids of strings; parent: the number of the caller's stack, 0 = none. */
struct known_frame {
	uint32_t parent, function, file, line, first_line;
	uint32_t module, class; /* as in EVENT_STACK */
};
/* The number of the stack with this innermost frame; written through `own` where it is new. Any thread, inside of the sink. */
enum known_result known_number(struct sink_thread *own, const struct known_frame *frame, uint32_t *ret);

/* The number of the stack, whose innermost frame comes first; 0 without a frame. What is new of it is written through `own`. The
 * agent's thread. */
enum known_result known_stack(struct python *python, struct sink_thread *own, const struct python_frame *frames,
			      size_t count, uint32_t *ret);

#endif
