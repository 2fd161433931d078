/* halt.h - Ctrl-C (SIGINT), SIGTERM and SIGHUP while processes get the agent: what is under way is undone first. One user at a time; any
 * thread may ask. */
#ifndef PROFD_CLIENT_ATTACH_HALT_H
#define PROFD_CLIENT_ATTACH_HALT_H

#include <stdbool.h>

/* The second one of these ends the program at once. */
void halt_begin(void);
/* Has one of them come since? */
bool halt_asked(void);
void halt_end(void);

#endif
