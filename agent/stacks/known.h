/* known.h - stacks that have been written in this recording: each has a number, and is written once. The memory is
 * bounded, and taken when a capture is armed. */
#ifndef PROFD_AGENT_STACKS_KNOWN_H
#define PROFD_AGENT_STACKS_KNOWN_H

#include "proto/python/code.h"

#include "agent/sink/sink.h"

/* Each collector that uses it calls these at arm and at disarm. 0 or a negative errno (no memory). The agent's
 * thread. */
int known_take(void);
void known_give_back(void);
/* Bytes of memory, divided by the number of users. */
uint64_t known_bytes(void);

/* A recording with this generation begins: forgets all stacks, if no other user has done so for this recording. The
 * agent's thread. */
void known_start(uint32_t recording);

enum known_result {
	KNOWN_OK,
	KNOWN_GONE,    /* a function no longer exists, or was torn: read the frames again */
	KNOWN_FULL,    /* there are more stacks than can be kept */
	KNOWN_NO_ROOM, /* the segment has no room */
};

/* Texts are ids of strings; parent: the number of the caller's stack, 0 = none. */
struct known_frame {
	uint32_t parent, function, file, line, first_line;
	uint32_t module, class; /* as in EVENT_STACK */
};
/* The number of the stack with this innermost frame; a new one is written through `own`. Any thread, inside of the
 * sink. */
enum known_result known_number(struct sink_thread *own, const struct known_frame *frame, uint32_t *ret);

/* The number of the stack whose frames these are, the innermost first; 0 without a frame. New parts of it are written
 * through `own`. The agent's thread. */
enum known_result known_stack(struct python *python, struct sink_thread *own, const struct python_frame *frames,
			      size_t count, uint32_t *ret);

#endif
