/* interrupt.h - Ctrl-C during a wait: a signal is counted, and the code that waits acts upon it. One user at a time. */
#ifndef PROFD_CLIENT_UI_INTERRUPT_H
#define PROFD_CLIENT_UI_INTERRUPT_H

#include <signal.h>

struct interrupt {
	struct sigaction before;
	sigset_t waiting; /* what ppoll() takes: here alone Ctrl-C comes in */
};

void interrupt_begin(struct interrupt *interrupt);
/* How often it came since the program began. */
int interrupt_count(void);
void interrupt_end(const struct interrupt *interrupt);

#endif
