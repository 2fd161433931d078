/* launch.c - kernels. Any thread. A kernel computes nothing: it takes the time that its name or its first parameter says. */
#include "internal.h"

#include <string.h>

/* The first parameter of a launch, as u64; 0 where there is none. */
static uint64_t first_parameter(void **parameters, void **extra)
{
	uint64_t value = 0;
	const void *at = parameters ? parameters[0] : NULL;
	for (void **e = extra; e && *e != CU_LAUNCH_PARAM_END; e += 2)
		if (*e == CU_LAUNCH_PARAM_BUFFER_POINTER)
			at = e[1];
	if (at)
		memcpy(&value, at, sizeof value);
	return value;
}

CUresult kernel_work(struct work *work, CUfunction handle, const unsigned grid[3], const unsigned block[3],
		     unsigned shared, void **parameters, void **extra)
{
	struct CUfunc_st *function = function_of(handle);
	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	for (int i = 0; i < 3; i++)
		if (!grid[i] || !block[i])
			return CUDA_ERROR_INVALID_VALUE;
	if ((uint64_t)block[0] * block[1] * block[2] > 1024)
		return CUDA_ERROR_INVALID_VALUE;
	uint64_t duration = function->duration;
	if (duration == UINT64_MAX)
		duration = first_parameter(parameters, extra);
	*work = (struct work){.record = {.kind = SIM_KERNEL,
					 .name = function->name,
					 .grid = {grid[0], grid[1], grid[2]},
					 .block = {block[0], block[1], block[2]},
					 .registers = FUNCTION_REGISTERS,
					 .dynamic_shared = shared,
					 .asynchronous = 1},
			      .duration = duration,
			      .traps = function->traps};
	return CUDA_SUCCESS;
}

static CUresult launch(struct scope *scope, CUfunction function, const unsigned grid[3], const unsigned block[3],
		       unsigned shared, CUstream handle, void **parameters, void **extra)
{
	struct work work;
	if (!current_context())
		return CUDA_ERROR_INVALID_CONTEXT;
	struct CUstream_st *stream = stream_of(scope, handle);
	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	CUresult result = kernel_work(&work, function, grid, block, shared, parameters, extra);
	return result == CUDA_SUCCESS ? submit(scope, stream, &work) : result;
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
			unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared,
			CUstream stream, void **parameters, void **extra)
{
	CALL(cuLaunchKernel, );
	unsigned grid[3] = {grid_x, grid_y, grid_z}, block[3] = {block_x, block_y, block_z};
	RETURN(launch(&scope, function, grid, block, shared, stream, parameters, extra));
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
				   unsigned int block_x, unsigned int block_y, unsigned int block_z,
				   unsigned int shared, CUstream stream, void **parameters)
{
	CALL(cuLaunchCooperativeKernel, );
	unsigned grid[3] = {grid_x, grid_y, grid_z}, block[3] = {block_x, block_y, block_z};
	RETURN(launch(&scope, function, grid, block, shared, stream, parameters, NULL));
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra)
{
	CALL(cuLaunchKernelEx, );
	CHECK(config, CUDA_ERROR_INVALID_VALUE);
	unsigned grid[3] = {config->gridDimX, config->gridDimY, config->gridDimZ};
	unsigned block[3] = {config->blockDimX, config->blockDimY, config->blockDimZ};
	RETURN(launch(&scope, function, grid, block, config->sharedMemBytes, config->hStream, parameters, extra));
}
