/* life.h - is this process ours to watch? The words that a fork must wipe, and the way into life. */
#ifndef PROFD_AGENT_LIFE_H
#define PROFD_AGENT_LIFE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Lies in a page that the kernel wipes in every child with memory of its own, raw clone() included: such a child finds
 * all of it 0, so it is not alive, records nothing and touches nothing that it shares with its parent. */
struct life {
	_Atomic uint32_t alive; /* 1: entered and running in this very process */
	_Atomic uint32_t
		recording; /* generation of the recording that hooks may enter: from warm-up until its drain is over */
	_Atomic uint32_t loaded; /* 1: the constructor has run here */
};
extern struct life *life_words;

static inline int life_alive(void)
{
	return life_words && atomic_load_explicit(&life_words->alive, memory_order_relaxed);
}

/* The way in: starts the agent's thread, once in a process; later calls only add to what HELLO says. `entry` is of enum
 * agent_entry. Cheap and silent; may be called from any thread, from constructors and from inside a foreign library's
 * initialisation. */
void life_enter(unsigned entry);
unsigned life_entries(void);

/* The preloaded agent saw a library with this name being opened (NULL: the program itself). */
void life_library_seen(const char *name);

/* Wakes the agent's thread. Async-signal-safe, keeps errno, never blocks. */
void life_wake(void);

/* From now on the end of a recording at exit() comes before the exit handlers of what is loaded now: a driver whose own have run
 * tells nothing more. Once in a process. */
void life_watch_exit(void);

/* Appends a line to the file that PROFD_DEBUG names; nothing where it names none. */
void life_debug(const char *what, const char *detail);

/* Body of the agent's thread (link.c). Never returns. */
void link_main(int wake_fd);

/* A part of torch is being loaded: the agent's thread looks for the rest. Any thread. */
void link_torch_coming(void);

/* Closes what a fork child must not keep open: called in the child. */
void link_close_in_child(void);

#endif
