/* read.h - the Python stacks of a process, as they stand now. */
#ifndef PROFD_CLIENT_STACK_READ_H
#define PROFD_CLIENT_STACK_READ_H

#include "client/process/task.h"
#include "proto/python/python.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Frames of a thread that are kept; of a deeper stack the innermost ones. */
#define STACK_FRAMES_MOST 2048

struct stack_frame {
	char *name,
		*file; /* of a native one the function, NULL where it has no name, and the object that it is in, NULL: none */
	int32_t line; /* 0: not known */
	bool native;
	bool entry;	  /* of Python's: C called it */
	bool aside;	  /* of a native one: the interpreter's own, behind the innermost frame of Python */
	uint64_t address; /* of a native one: in its file */
};

struct stack_thread {
	int64_t tid; /* 0: not known */
	bool is_main;
	char name[64];
	char state; /* as /proc has it; ? not known */
	bool holds_gil;
	struct process_work before, after; /* it was read; of the main thread alone */
	enum python_walk_result reading;
	bool more;	      /* it has more frames than were kept */
	bool native_whole;    /* its native frames are there, all of them */
	const char *call;     /* the system call that it waits in, where it was looked for and is known by name */
	char native_why[192]; /* why not; empty: they were not asked for, or are whole */
	size_t count;
	struct stack_frame *frames; /* the innermost first */
};

struct stack_process {
	int64_t pid;
	int error;	    /* an exit code of failure.h; 0: it was read */
	char sentence[512]; /* why not */
	char command[256];
	unsigned minor;
	bool native;   /* native frames were asked for */
	unsigned torn; /* readings that were thrown away */
	bool cut;      /* the bound on reading was reached */
	size_t count;
	struct stack_thread *threads; /* the main thread first, where it runs Python; then by id */
};

/* One that was not read yet. */
struct stack_process *stack_process_new(int64_t pid);
/* `native`: native frames as well. Always returns; what went wrong stands in the answer, which stack_process_free() frees. Where the process
 * keeps its reader waiting, that reader, a thread, is left behind. */
struct stack_process *stack_read_in_time(int64_t pid, bool native);
/* The same for many, side by side, each in its place: of Python alone, as what reads native frames is a process that each of them starts. */
void stack_read_all_in_time(struct stack_process **processes, size_t count);
void stack_process_free(struct stack_process *process);

/* For several looks at one process. `ret` gets its command and release, and what of an error there was. Whoever reads may be kept waiting: see
 * client/process/watched.h. NULL: it cannot be read. */
struct stack_reader;
struct stack_reader *stack_reader_open(int64_t pid, struct stack_process *ret);
/* One look. `ret` has none of a look before it (stack_process_forget). */
void stack_reader_look(struct stack_reader *reader, struct stack_process *ret);
void stack_process_forget(struct stack_process *process);
void stack_reader_close(struct stack_reader *reader);

/* Does it wait, as the kernel sees it? */
bool stack_idle(const struct stack_thread *thread);

#endif
