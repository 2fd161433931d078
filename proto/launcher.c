/* launcher.c - see launcher.h. */
#include "launcher.h"

#include <string.h>

static int number(const char *text, int *ret)
{
	if (!text || !*text)
		return 0;
	int value = 0;
	for (const char *p = text; *p; p++) {
		if (*p < '0' || *p > '9' || value > 100000000)
			return 0;
		value = value * 10 + (*p - '0');
	}
	*ret = value;
	return 1;
}

static int first_number(launcher_variable *variable, void *context, const char *const *names)
{
	int value = -1;
	for (; *names; names++)
		if (number(variable(*names, context), &value))
			break;
	return value;
}

void launcher_ranks(launcher_variable *variable, void *context, struct launcher_ranks *ret)
{
	/* torchrun sets RANK for its workers, and so do scripts that follow its convention; Slurm and Open MPI have
	 * other names. */
	ret->rank = first_number(variable, context,
				 (const char *const[]){"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", NULL});
	ret->local_rank =
		first_number(variable, context,
			     (const char *const[]){"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID", NULL});
	ret->world_size = first_number(
		variable, context, (const char *const[]){"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS", NULL});
}

const char *launcher_job(launcher_variable *variable, void *context, const char **ret_launcher)
{
	const char *job = variable("PROFD_JOB", context), *slurm = variable("SLURM_JOB_ID", context);
	const char *torchrun = variable("TORCHELASTIC_RUN_ID", context), *mpi = variable("PMIX_NAMESPACE", context);
	*ret_launcher = torchrun				    ? "torchrun"
			: variable("OMPI_COMM_WORLD_RANK", context) ? "openmpi"
			: slurm					    ? "slurm"
								    : "";
	/* The more specific launcher names the job. */
	if (job && *job)
		return job;
	return slurm ? slurm : torchrun ? torchrun : mpi ? mpi : "";
}

const char *launcher_find(const char *environment, size_t bytes, const char *name)
{
	size_t n = strlen(name);
	for (const char *at = environment; at < environment + bytes; at += strlen(at) + 1)
		if (strncmp(at, name, n) == 0 && at[n] == '=')
			return at + n + 1;
	return NULL;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash && slash[1] ? slash + 1 : path;
}

const char *launcher_program(const char *arguments, size_t bytes)
{
	const char *program = base_name(arguments);
	if (strncmp(program, "python", 6) != 0 && strncmp(program, "pypy", 4) != 0)
		return program;
	for (const char *a = arguments + strlen(arguments) + 1; a < arguments + bytes; a += strlen(a) + 1) {
		if (!strcmp(a, "-m")) {
			a += strlen(a) + 1;
			return a < arguments + bytes ? a : program;
		}
		if (!strcmp(a, "-c") || !strcmp(a, "-"))
			return program;
		if (*a != '-')
			return base_name(a);
		if (!strcmp(a, "-W") || !strcmp(a, "-X"))
			a += strlen(a) + 1;
	}
	return program;
}
