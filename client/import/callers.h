/* callers.h - which calls of Python's functions and of nn.Modules an operator of a trace lies in. They become the capture's stacks, as an agent
 * would have read them. Memory is bounded by how many functions and stacks differ: the calls are sorted on the disk. */
#ifndef PROFD_CLIENT_IMPORT_CALLERS_H
#define PROFD_CLIENT_IMPORT_CALLERS_H

#include "kineto.h"
#include "strings.h"

#include "proto/base/sorter.h"
#include "proto/events.h"

/* Deeper calls are passed over. */
#define CALLERS_DEPTH 1024

/* A call that is going on where we are. */
struct caller {
	int64_t end;
	uint32_t function, place; /* place: where its caller stood */
	uint32_t stack;		  /* of its callers, once it is resolved */
	bool is_entered;	  /* an operator has run in it */
};

struct callers {
	struct strings *strings; /* not owned */
	struct sorter calls;
	const struct call *next;
	struct intern function_ids, place_ids, stack_ids;
	struct caller_function *functions; /* by number, from 1 on; 0 are those of C */
	struct caller_place *places;	   /* likewise; 0: not known */
	size_t function_count, function_room, place_count, place_room;
	struct caller open[CALLERS_DEPTH];
	size_t depth, resolved; /* resolved: of how many the callers' stack is known */
	uint32_t thread, order;
	bool modules; /* there are calls of nn.Modules */
	void *context;
	bool (*found)(void *context, const union event_any *stack); /* a stack that is new; false: it is enough */
};

int callers_init(struct callers *callers, struct strings *strings, int folder);
void callers_deinit(struct callers *callers);

/* A call of Python (KINETO_PYTHON) that has times. *ret_kept: it can be part of a stack; a function of C only tells the line of its caller. 0
 * or a negative errno. */
int callers_add(struct callers *callers, const struct kineto_event *event, bool *ret_kept);
/* After the last: from now on callers_of() may be called. */
int callers_rewind(struct callers *callers);
/* Of an operator that begins no earlier than the one before on its thread: the number of its stack (0: in no Python), and how many calls of modules it is
 * the first operator of. *ret_lost: there are more stacks than a capture holds. 0 or a negative errno. */
int callers_of(struct callers *callers, uint32_t thread, int64_t start, uint32_t *ret_stack, uint8_t *ret_entered,
	       bool *ret_lost);

#endif
