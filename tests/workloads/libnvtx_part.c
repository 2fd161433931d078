/* libnvtx_part.c - a library that carries NVTX itself, for nvtx_dlclose. */
#include <nvtx3/nvToolsExt.h>

void part_work(int pairs);

void part_work(int pairs)
{
	for (int i = 0; i < pairs; i++) {
		nvtxRangePushA("part");
		nvtxRangePop();
	}
}
