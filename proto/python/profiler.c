/* profiler.c - see profiler.h. torch keeps the state in a variable of a module (2.4 to 2.15). */
#include "profiler.h"

#include "dict.h"

#define READS 100000

bool python_torch_profiles(struct python *python)
{
	uint64_t is_on = 0;
	python->memory.reads_left = READS;
	uint64_t module = python_module(python, "torch.autograd.profiler", NULL);
	return module &&
	       python_number(python, python_dict_find(python, module, "_is_profiler_enabled", NULL), &is_on) && is_on;
}
