/* slot.h - CPython's own way in, from 3.14 on (PEP 768): a main thread that comes back to bytecode runs the script that a slot in its state
 * names. Nothing is stopped. The script is the client's, in a folder that the process sees; it loads the agent by ctypes. */
#ifndef PROFD_CLIENT_ATTACH_SLOT_H
#define PROFD_CLIENT_ATTACH_SLOT_H

#include "proto/python/python.h"
#include "target.h"

/* Fills target->slot: where it is, or why it is not used. It only looks. */
void slot_find(struct target *target, struct python *python);

enum slot_result {
	SLOT_DONE,    /* the agent is there */
	SLOT_IDLE,    /* the agent is loaded, and cannot run there */
	SLOT_LOADING, /* it is being loaded still */
	SLOT_NOT,     /* nothing was changed, or it was undone: another way may follow */
};
/* Waits so many ns for the main thread. What it has written is undone by then, unless it is being loaded. */
enum slot_result slot_attach(struct target *target, const void *library, size_t bytes, const char *socket,
			     int64_t patience);

#endif
