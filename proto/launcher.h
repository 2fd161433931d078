/* launcher.h - what a launcher has told a process by its environment, and the process's name. Agents register with
 * these facts. A client uses them for processes without an agent. No memory of its own. */
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

/* A variable in an environment as in /proc/PID/environ: `bytes` bytes of texts one after the other, each ended by a
 * NUL. */
const char *launcher_find(const char *environment, size_t bytes, const char *name);

/* The program, or the script that an interpreter runs: `python -m pkg.train`, `python train.py`. `arguments` is as in
 * /proc/PID/cmdline, with a NUL after the last one; the answer points into it. */
const char *launcher_program(const char *arguments, size_t bytes);

#endif
