/* choose.h - the thread that is stopped, and where. */
#ifndef PROFD_CLIENT_ATTACH_CHOOSE_H
#define PROFD_CLIENT_ATTACH_CHOOSE_H

#include "stopped.h"
#include "target.h"

/* Stops a thread at a place where it can be made to call: one that sleeps in a system call that goes on as if nothing had been; else the
 * main thread, where it runs outside of libraries that hold locks. 0, or a negative errno (EAGAIN: there was no such place). */
int choose_thread(struct target *target, struct stopped *ret);
/* The main thread, where it stands at such a place just now. */
int choose_main(struct target *target, struct stopped *ret);

#endif
