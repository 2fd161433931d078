/* target.h - a process that is to get the agent: whether it can, looked at without touching it, and where in it what is needed lies. */
#ifndef PROFD_CLIENT_ATTACH_TARGET_H
#define PROFD_CLIENT_ATTACH_TARGET_H

#include "client/process/memory.h"
#include "client/process/object.h"

#include <stdbool.h>
#include <stdint.h>

/* Of CPython 3.14 and later: addresses in the state of its main thread. */
struct slot {
	uint64_t breaker, pending, path;
	size_t path_bytes; /* 0: there is no such thing */
	const char *why;   /* it is not used; NULL: it can be */
};

struct target {
	int64_t pid;
	struct process_memory process;
	struct process_objects objects;
	uint64_t born; /* /proc/PID/stat's start time: the pid is still the same process */
	bool python;
	uint64_t runtime; /* its _PyRuntime */
	unsigned minor;
	uint64_t agent; /* profd_attach() of one that is mapped, does not run and can be woken; 0: none is */
	/* Addresses in it. */
	uint64_t dlopen, dlsym, close, mmap, mprotect, syscall, leave; /* leave: libc's rt_sigreturn */
	uint64_t pthread_create, pthread_detach, add_pending_call;
	struct slot slot;
};

/* 0, or an exit code of failure.h with a sentence that says why nothing can be attached: `profd doctor` says the same. It only looks.
 * target_close() in every case. */
int target_open(struct target *ret, int64_t pid, char *sentence, size_t bytes);
void target_close(struct target *target);

/* By which way it would be attached to, in words; why not by Python's slot, or NULL. */
const char *target_way(const struct target *target, const char **why_no_slot);

/* Writes a piece of a path that changes its text, and not the file it leads to. The loader compares the texts of paths first: if it has loaded a
 * library by the same text, it loads nothing. A forked child has its parent's list of these texts. */
#define TARGET_SPELLING_BYTES 49
void target_spell(char ret[TARGET_SPELLING_BYTES]);

/* Is it still the process that was opened? */
bool target_same(const struct target *target);
/* Is it on its way out, or gone? Then it has no root any more, and soon no memory. Once it has been opened. */
bool target_ends(const struct target *target);
/* Tells the true reason of a failure: a process that ends meanwhile has no program, libraries, memory or Python any
 * more, but none of that is the reason. Returns the code, or that of the new sentence. */
int target_told(const struct target *target, int code, char *sentence, size_t bytes);

/* For a process with Python: has Python neither ended nor begun to end? A call into it after that works in memory that
 * has been freed. */
bool target_python_runs(struct target *target);

/* Must this thread not be made to call, whatever the others are? A filter of system calls (seccomp) belongs to a
 * thread, and kills the process for a call that it does not know. A shadow stack belongs to a thread, too, and a
 * made-up return violates it. */
bool target_shuts(int64_t tid);

/* May a thread be stopped whose next instruction is at this address? Not inside of the loader, allocators, libc. */
bool target_clean(const struct target *target, uint64_t address);
bool target_is_loader(const struct target *target, uint64_t address);

#endif
