/* launcher.h - what a launcher has told a process by its environment, and what the process is called. Agents register
 * with these facts. A client knows processes without an agent by them. No memory of its own. */
#ifndef PROFD_PROTO_LAUNCHER_H
#define PROFD_PROTO_LAUNCHER_H

#include <stddef.h>

/* A variable's value, NULL where there is none. */
typedef const char *launcher_variable(const char *name, void *context);

/* Each is -1 where the environment does not tell it. */
struct launcher_ranks {
	int rank, local_rank, world_size;
};
void launcher_ranks(launcher_variable *variable, void *context, struct launcher_ranks *ret);

/* The id of the job, "" where there is none: the environment's own text. *ret_launcher: torchrun, slurm, openmpi or "". */
const char *launcher_job(launcher_variable *variable, void *context, const char **ret_launcher);

/* A variable of an environment as /proc/PID/environ has it: texts one behind the other, `bytes` of them, with a NUL behind the last one. */
const char *launcher_find(const char *environment, size_t bytes, const char *name);

/* The program, or the script that an interpreter runs: `python -m pkg.train`, `python train.py`. `arguments` is as /proc/PID/cmdline
 * has it, with a NUL behind the last one; the answer lies in it. */
const char *launcher_program(const char *arguments, size_t bytes);

#endif
