/* stack_frames.h - the table `stacks` of a capture in memory: a stack is a frame and the stack of its caller. One thread. */
#ifndef PROFD_CLIENT_EXPORT_STACK_FRAMES_H
#define PROFD_CLIENT_EXPORT_STACK_FRAMES_H

#include "client/reader/reader.h"

#include <stdint.h>

struct stack_frame {
	uint32_t parent; /* 0: the outermost; else less than its own number */
	int64_t line;
	char *function, *file; /* "?" where it is not known. NULL: there is no such frame */
};

struct stack_frames {
	struct stack_frame *frames; /* by number, from 1 on */
	uint32_t count;		    /* the last number */
};

/* 0 or a negative errno. stack_frames_free() in either case. */
int stack_frames_load(struct stack_frames *ret, const struct reader *reader);
void stack_frames_free(struct stack_frames *frames);

#endif
