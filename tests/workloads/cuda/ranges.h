/* ranges.h - NVTX ranges where nvtx3 is there to build with, else nothing. */
#ifndef PROFD_TESTS_WORKLOADS_CUDA_RANGES_H
#define PROFD_TESTS_WORKLOADS_CUDA_RANGES_H

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#else
static inline int nvtxRangePushA(const char *name)
{
	(void)name;
	return 0;
}
static inline int nvtxRangePop(void)
{
	return 0;
}
#endif

#endif
