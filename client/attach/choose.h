/* choose.h - the thread that is stopped, and where. */
#ifndef PROFD_CLIENT_ATTACH_CHOOSE_H
#define PROFD_CLIENT_ATTACH_CHOOSE_H

#include "stopped.h"
#include "target.h"

/* The stops of one attachment, all together. */
struct stops {
	unsigned count;
	int64_t ns; /* so long did threads stand */
};

/* What the thread is to do: a running one may stand at more places where it only queues a call for Python, which takes neither malloc
 * nor the loader. */
enum choose_what { CHOOSE_TO_QUEUE, CHOOSE_TO_START, CHOOSE_TO_START_ASLEEP /* none that runs */ };

/* Stops a thread at a place where it can be made to call: one that sleeps in a system call that goes on as if nothing had been; else the
 * main thread, where it runs outside of libraries that hold locks. 0, or a negative errno (EAGAIN: there was no such place in
 * `most` ns, or a few seconds). */
int choose_thread(struct target *target, enum choose_what what, int64_t most, struct stops *stops, struct stopped *ret);
/* The main thread, where it runs, and stands at such a place just now. */
int choose_main(struct target *target, enum choose_what what, struct stops *stops, struct stopped *ret);
/* stopped_end(), and the time that it stood is noted. */
int choose_end(struct stops *stops, struct stopped *thread);

/* Is there a thread now that could be stopped, or may be found at such a place? It only looks. */
bool choose_could(struct target *target);

#endif
