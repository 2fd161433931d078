/* task.h - the threads of a process, as /proc/PID/task has them. */
#ifndef PROFD_CLIENT_PROCESS_TASK_H
#define PROFD_CLIENT_PROCESS_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct process_task {
	int64_t tid;   /* as we see it */
	int64_t inner; /* in the process's own pid namespace */
	char state;    /* R, S, D, T, t, Z, ...; ? where it cannot be read */
	char name[16];
};

/* Returns an array (to be freed) of *count threads, NULL where there are none: the process is gone. */
struct process_task *process_tasks(int64_t pid, size_t *count);
/* The state of one thread, ? where it is gone. */
char process_task_state(int64_t pid, int64_t tid);

/* What it has had of the processors so far. */
struct process_work {
	bool known;
	uint64_t switches; /* how often it has left one */
	uint64_t ns;	   /* how long it had one; 0 where this kernel does not count it */
};
struct process_work process_task_work(int64_t pid, int64_t tid);

/* Is it on its way out, or gone? Also if it is a zombie, whose parent has not asked for its end yet. */
bool process_ends(int64_t pid);

#endif
