/* profiler.h - torch.profiler in a process, seen in the memory of its Python. */
#ifndef PROFD_PROTO_PYTHON_PROFILER_H
#define PROFD_PROTO_PYTHON_PROFILER_H

#include "python.h"

/* Does torch.profiler record, or its older interface torch.autograd.profiler? Also false where that cannot be read.
 * Call python_disproved() (proof.h) first. */
bool python_torch_profiles(struct python *python);

#endif
