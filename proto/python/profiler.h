/* profiler.h - torch.profiler in a process, seen in the memory of its Python. */
#ifndef PROFD_PROTO_PYTHON_PROFILER_H
#define PROFD_PROTO_PYTHON_PROFILER_H

#include "python.h"

/* Does it record, or the older interface to the same (torch.autograd.profiler)? False too where it cannot be read. What dict.h reads has to be
 * proved (proof.h). */
bool python_torch_profiles(struct python *python);

#endif
