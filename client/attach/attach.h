/* attach.h - brings the agent into a process that was started without it. */
#ifndef PROFD_CLIENT_ATTACH_ATTACH_H
#define PROFD_CLIENT_ATTACH_ATTACH_H

#include "target.h"

struct attachment {
	const char *way;   /* "slot", "pending call" or "thread" */
	int64_t tid;	   /* the thread that was made to call; 0: none was */
	int64_t stood_ns;  /* all stops together */
	int64_t loaded_ns; /* until the agent was there, from then on */
	/* Half a sentence, what attach() waits for just now: another thread may read it. */
	const char *_Atomic waits_for;
};

/* Loads the agent's library (its bytes) and has it obey the daemon at `socket`. `patience`: ns that the process gets to come to a place
 * where it can load; after that it is told not to. 0, or an exit code with a sentence. */
int attach(struct target *target, const void *library, size_t library_bytes, const char *socket, int64_t patience,
	   struct attachment *ret, char *sentence, size_t bytes);

#endif
