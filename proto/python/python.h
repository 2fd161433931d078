/* python.h - reads the Python threads and frames of a process from its memory while it runs. Nothing is stopped and
 * nothing is called, so a reading may be torn. The functions check that a reading is consistent, and tell if it is not.
 * No heap, no stdio, no lock; the memory may be hostile. CPython 3.9 to 3.14 on 64-bit machines. */
#ifndef PROFD_PROTO_PYTHON_PYTHON_H
#define PROFD_PROTO_PYTHON_PYTHON_H

#include "memory.h"
#include "offsets.h"

enum python_result {
	PYTHON_OK,
	PYTHON_UNREADABLE,    /* memory that must be readable is not */
	PYTHON_UNKNOWN,	      /* a release whose layout is not known */
	PYTHON_FREE_THREADED, /* a build without the GIL: its frames cannot be read while they run */
	PYTHON_NOT_READY,     /* the interpreter does not exist yet, or no longer */
	PYTHON_FINALIZING,
};

struct python {
	struct python_memory memory;
	struct python_offsets offsets;
	uint64_t runtime;
	unsigned minor; /* 3.MINOR */
	unsigned tries; /* how often a stack is read before it is given up; python_open() sets the usual number */
};

/* `runtime`: the address of _PyRuntime. `minor`: 0 where it is not known (python_offsets_find). */
enum python_result python_open(struct python *python, const struct python_memory *memory, uint64_t runtime,
			       unsigned minor);

struct python_thread {
	uint64_t state, interpreter;
	uint64_t ident;	 /* pthread_t: threading.get_ident() */
	uint32_t native; /* the kernel's id, in the process's own pid namespace; 0: 3.9 and 3.10 do not keep it */
	bool holds_gil;
};
/* At most `room` threads of all interpreters, the newest first. Returns their number, or -1 where the list cannot be read. */
int python_threads(struct python *python, struct python_thread *ret, size_t room);
/* The thread that holds the interpreter's GIL. False: no thread holds it, or it cannot be read. */
bool python_holder(struct python *python, uint64_t interpreter, struct python_thread *ret);

struct python_frame {
	uint64_t address, code;
	int64_t instruction; /* bytes from the first one; negative: none has run */
	bool entry; /* C called it: the frames that it calls up to the next entry run in the same call of CPython's loop */
};

enum python_walk_result {
	WALK_WHOLE, /* two readings were alike, the thread was still there then, and they begin where programs and threads begin */
	WALK_ODD, /* two readings were, or began, alike; the outermost frame is neither a module nor a thread's first.
		     * This is so if C code calls Python on a thread of its own, and for a moment while a generator is
		     * left: read a running thread again */
	WALK_MOVING, /* the thread runs: the frames are consistent, but perhaps of two moments */
	WALK_TORN,   /* no reading was consistent */
};
/* The frames of a thread, the innermost first. `room` is how many `frames` and `scratch` each take. *count may be 0; *more: there were
 * more than fit. *torn: how many readings were thrown away. */
enum python_walk_result python_walk(struct python *python, uint64_t state, struct python_frame *frames,
				    struct python_frame *scratch, size_t room, size_t *count, bool *more,
				    unsigned *torn);

#endif
