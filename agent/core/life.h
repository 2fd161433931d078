/* life.h - may the agent work in this process? The words that a fork must wipe, waking the agent's thread, the end of
 * the process, the debug log. */
#ifndef PROFD_AGENT_CORE_LIFE_H
#define PROFD_AGENT_CORE_LIFE_H

#include "own.h"
#include "gate.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Lies in a page that the kernel wipes in every child with memory of its own, also after a raw clone(). Such a child
 * finds only zeros here: so the agent in it is not alive, records nothing, and touches nothing that the child shares
 * with its parent. */
struct life {
	union {
		struct {
			_Atomic uint32_t alive; /* 1: entered and running in this very process */
			/* Generation of the recording that hooks may enter: from warm-up until its drain is over. */
			_Atomic uint32_t recording;
		};
		_Atomic uint64_t both;
	};
	_Atomic uint32_t loaded; /* 1: the constructor has run here */
	int process;		 /* getpid() of the process that was entered */
	struct gate gate;
};
OWN struct life *life_words;

static inline int life_alive(void)
{
	return life_words && atomic_load_explicit(&life_words->alive, memory_order_relaxed);
}

/* Is this a forked child, and was this copy loaded before the fork? Then this copy never works again; another copy may
 * (claim.h). */
static inline int life_forked(void)
{
	return life_words && !life_words->process;
}

/* Alive, and nothing is recorded: one load answers both. Only for a process that has been entered. */
static inline int life_idles(void)
{
	static const struct {
		uint32_t alive, recording;
	} idle = {1, 0};
	uint64_t both = atomic_load_explicit(&life_words->both, memory_order_relaxed);
	return !memcmp(&both, &idle, sizeof both);
}

/* Once, when the agent is loaded: `debug` names the debug log, NULL: none. `exiting` is what runs when the process ends. */
void life_begin(void (*exiting)(void), const char *debug);

/* Why the agent's thread is woken: it has something to do; the connection can be read or is gone. */
enum life_wake { WAKE_CALL = 1, WAKE_SOCKET = 2 };
/* Wakes the agent's thread (life_wake: WAKE_CALL). Async-signal-safe, keeps errno, never blocks, needs no descriptor: the
 * thread that steps may have a table of its own. */
void life_wake_for(uint32_t why);
void life_wake(void);
/* Sleeps until it is woken, so many ns at most (UINT64_MAX: for ever). Returns the reasons, 0 when the time is up. Agent's
 * thread. */
uint32_t life_wait(uint64_t ns);
/* The calling thread, which is the agent's, makes no system call any more: it waits for a futex that nobody wakes. */
void life_stop(void) __attribute__((noreturn));

/* From now on exit() ends the recording before it runs the exit handlers of the libraries that are loaded now. Once
 * these have run, CUDA's driver reports nothing more, and torch complains about callbacks that it no longer has. The
 * agent's thread; once for each `watched`. */
void life_watch_exit(unsigned *watched);

/* Appends a line to the file that PROFD_DEBUG names, if it names one. */
void life_debug(const char *what, const char *detail);

#endif
