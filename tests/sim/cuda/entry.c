/* entry.c - the other ways in: names for programs whose default stream is each thread's own (_ptsz, _ptds), and
 * cuGetProcAddress. Any thread, no state. */
#include "internal.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define ENTRY(name, suffix, parameters, arguments)                                                                     \
	CUresult name##suffix parameters                                                                               \
	{                                                                                                              \
		scope_per_thread(#name #suffix);                                                                       \
		return name arguments;                                                                                 \
	}

ENTRY(cuEventRecord, _ptsz, (CUevent a, CUstream b), (a, b))
ENTRY(cuEventRecordWithFlags, _ptsz, (CUevent a, CUstream b, unsigned int c), (a, b, c))
ENTRY(cuGraphInstantiateWithParams, _ptsz, (CUgraphExec * a, CUgraph b, CUDA_GRAPH_INSTANTIATE_PARAMS *c), (a, b, c))
ENTRY(cuGraphLaunch, _ptsz, (CUgraphExec a, CUstream b), (a, b))
ENTRY(cuGraphUpload, _ptsz, (CUgraphExec a, CUstream b), (a, b))
ENTRY(cuLaunchCooperativeKernel, _ptsz,
      (CUfunction a, unsigned int b, unsigned int c, unsigned int d, unsigned int e, unsigned int f, unsigned int g,
       unsigned int h, CUstream i, void **j),
      (a, b, c, d, e, f, g, h, i, j))
ENTRY(cuLaunchHostFunc, _ptsz, (CUstream a, CUhostFn b, void *c), (a, b, c))
ENTRY(cuLaunchHostFunc_v2, _ptsz, (CUstream a, CUhostFn b, void *c, unsigned int d), (a, b, c, d))
ENTRY(cuLaunchKernel, _ptsz,
      (CUfunction a, unsigned int b, unsigned int c, unsigned int d, unsigned int e, unsigned int f, unsigned int g,
       unsigned int h, CUstream i, void **j, void **k),
      (a, b, c, d, e, f, g, h, i, j, k))
ENTRY(cuLaunchKernelEx, _ptsz, (const CUlaunchConfig *a, CUfunction b, void **c, void **d), (a, b, c, d))
ENTRY(cuMemAllocAsync, _ptsz, (CUdeviceptr * a, size_t b, CUstream c), (a, b, c))
ENTRY(cuMemAllocFromPoolAsync, _ptsz, (CUdeviceptr * a, size_t b, CUmemoryPool c, CUstream d), (a, b, c, d))
ENTRY(cuMemFreeAsync, _ptsz, (CUdeviceptr a, CUstream b), (a, b))
ENTRY(cuMemPrefetchAsync, _ptsz, (CUdeviceptr a, size_t b, CUdevice c, CUstream d), (a, b, c, d))
ENTRY(cuMemPrefetchAsync_v2, _ptsz, (CUdeviceptr a, size_t b, CUmemLocation c, unsigned int d, CUstream e),
      (a, b, c, d, e))
ENTRY(cuMemcpy, _ptds, (CUdeviceptr a, CUdeviceptr b, size_t c), (a, b, c))
ENTRY(cuMemcpy2DAsync_v2, _ptsz, (const CUDA_MEMCPY2D *a, CUstream b), (a, b))
ENTRY(cuMemcpy2DUnaligned_v2, _ptds, (const CUDA_MEMCPY2D *a), (a))
ENTRY(cuMemcpy2D_v2, _ptds, (const CUDA_MEMCPY2D *a), (a))
ENTRY(cuMemcpy3DAsync_v2, _ptsz, (const CUDA_MEMCPY3D *a, CUstream b), (a, b))
ENTRY(cuMemcpy3D_v2, _ptds, (const CUDA_MEMCPY3D *a), (a))
ENTRY(cuMemcpyAsync, _ptsz, (CUdeviceptr a, CUdeviceptr b, size_t c, CUstream d), (a, b, c, d))
ENTRY(cuMemcpyDtoDAsync_v2, _ptsz, (CUdeviceptr a, CUdeviceptr b, size_t c, CUstream d), (a, b, c, d))
ENTRY(cuMemcpyDtoD_v2, _ptds, (CUdeviceptr a, CUdeviceptr b, size_t c), (a, b, c))
ENTRY(cuMemcpyDtoHAsync_v2, _ptsz, (void *a, CUdeviceptr b, size_t c, CUstream d), (a, b, c, d))
ENTRY(cuMemcpyDtoH_v2, _ptds, (void *a, CUdeviceptr b, size_t c), (a, b, c))
ENTRY(cuMemcpyHtoDAsync_v2, _ptsz, (CUdeviceptr a, const void *b, size_t c, CUstream d), (a, b, c, d))
ENTRY(cuMemcpyHtoD_v2, _ptds, (CUdeviceptr a, const void *b, size_t c), (a, b, c))
ENTRY(cuMemcpyPeer, _ptds, (CUdeviceptr a, CUcontext b, CUdeviceptr c, CUcontext d, size_t e), (a, b, c, d, e))
ENTRY(cuMemcpyPeerAsync, _ptsz, (CUdeviceptr a, CUcontext b, CUdeviceptr c, CUcontext d, size_t e, CUstream f),
      (a, b, c, d, e, f))
ENTRY(cuMemsetD16Async, _ptsz, (CUdeviceptr a, unsigned short b, size_t c, CUstream d), (a, b, c, d))
ENTRY(cuMemsetD16_v2, _ptds, (CUdeviceptr a, unsigned short b, size_t c), (a, b, c))
ENTRY(cuMemsetD2D16Async, _ptsz, (CUdeviceptr a, size_t b, unsigned short c, size_t d, size_t e, CUstream f),
      (a, b, c, d, e, f))
ENTRY(cuMemsetD2D16_v2, _ptds, (CUdeviceptr a, size_t b, unsigned short c, size_t d, size_t e), (a, b, c, d, e))
ENTRY(cuMemsetD2D32Async, _ptsz, (CUdeviceptr a, size_t b, unsigned int c, size_t d, size_t e, CUstream f),
      (a, b, c, d, e, f))
ENTRY(cuMemsetD2D32_v2, _ptds, (CUdeviceptr a, size_t b, unsigned int c, size_t d, size_t e), (a, b, c, d, e))
ENTRY(cuMemsetD2D8Async, _ptsz, (CUdeviceptr a, size_t b, unsigned char c, size_t d, size_t e, CUstream f),
      (a, b, c, d, e, f))
ENTRY(cuMemsetD2D8_v2, _ptds, (CUdeviceptr a, size_t b, unsigned char c, size_t d, size_t e), (a, b, c, d, e))
ENTRY(cuMemsetD32Async, _ptsz, (CUdeviceptr a, unsigned int b, size_t c, CUstream d), (a, b, c, d))
ENTRY(cuMemsetD32_v2, _ptds, (CUdeviceptr a, unsigned int b, size_t c), (a, b, c))
ENTRY(cuMemsetD8Async, _ptsz, (CUdeviceptr a, unsigned char b, size_t c, CUstream d), (a, b, c, d))
ENTRY(cuMemsetD8_v2, _ptds, (CUdeviceptr a, unsigned char b, size_t c), (a, b, c))
ENTRY(cuStreamAddCallback, _ptsz, (CUstream a, CUstreamCallback b, void *c, unsigned int d), (a, b, c, d))
ENTRY(cuStreamBeginCapture, _ptsz, (CUstream a), (a))
ENTRY(cuStreamBeginCapture_v2, _ptsz, (CUstream a, CUstreamCaptureMode b), (a, b))
ENTRY(cuStreamEndCapture, _ptsz, (CUstream a, CUgraph *b), (a, b))
ENTRY(cuStreamGetAttribute, _ptsz, (CUstream a, CUstreamAttrID b, CUstreamAttrValue *c), (a, b, c))
ENTRY(cuStreamGetCaptureInfo, _ptsz, (CUstream a, CUstreamCaptureStatus *b, cuuint64_t *c), (a, b, c))
ENTRY(cuStreamGetCaptureInfo_v2, _ptsz,
      (CUstream a, CUstreamCaptureStatus *b, cuuint64_t *c, CUgraph *d, const CUgraphNode **e, size_t *f),
      (a, b, c, d, e, f))
ENTRY(cuStreamGetCaptureInfo_v3, _ptsz,
      (CUstream a, CUstreamCaptureStatus *b, cuuint64_t *c, CUgraph *d, const CUgraphNode **e,
       const CUgraphEdgeData **f, size_t *g),
      (a, b, c, d, e, f, g))
ENTRY(cuStreamGetCtx, _ptsz, (CUstream a, CUcontext *b), (a, b))
ENTRY(cuStreamGetCtx_v2, _ptsz, (CUstream a, CUcontext *b, CUgreenCtx *c), (a, b, c))
ENTRY(cuStreamGetDevice, _ptsz, (CUstream a, CUdevice *b), (a, b))
ENTRY(cuStreamGetFlags, _ptsz, (CUstream a, unsigned int *b), (a, b))
ENTRY(cuStreamGetId, _ptsz, (CUstream a, unsigned long long *b), (a, b))
ENTRY(cuStreamGetPriority, _ptsz, (CUstream a, int *b), (a, b))
ENTRY(cuStreamIsCapturing, _ptsz, (CUstream a, CUstreamCaptureStatus *b), (a, b))
ENTRY(cuStreamQuery, _ptsz, (CUstream a), (a))
ENTRY(cuStreamSetAttribute, _ptsz, (CUstream a, CUstreamAttrID b, const CUstreamAttrValue *c), (a, b, c))
ENTRY(cuStreamSynchronize, _ptsz, (CUstream a), (a))
ENTRY(cuStreamUpdateCaptureDependencies, _ptsz, (CUstream a, CUgraphNode *b, size_t c, unsigned int d), (a, b, c, d))
ENTRY(cuStreamUpdateCaptureDependencies_v2, _ptsz,
      (CUstream a, CUgraphNode *b, const CUgraphEdgeData *c, size_t d, unsigned int e), (a, b, c, d, e))
ENTRY(cuStreamWaitEvent, _ptsz, (CUstream a, CUevent b, unsigned int c), (a, b, c))

void *entry_find(const char *symbol)
{
	Dl_info self;
	if (!dladdr((void *)entry_find, &self))
		return NULL;
	void *library = dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD), *found = NULL;
	if (library) {
		found = dlsym(library, symbol);
		dlclose(library);
	}
	return found;
}

/* The release from which on a name means this variant of it: 3.2 where nothing else is said. */
static int variant_since(const char *symbol)
{
	static const struct {
		const char *symbol;
		int since;
	} variants[] = {
		{"cuCtxCreate_v3", 11040},
		{"cuCtxCreate_v4", 12050},
		{"cuCtxDestroy_v2", 4000},
		{"cuCtxPopCurrent_v2", 4000},
		{"cuCtxPushCurrent_v2", 4000},
		{"cuStreamDestroy_v2", 4000},
		{"cuEventDestroy_v2", 4000},
		{"cuMemHostRegister_v2", 6050},
		{"cuStreamBeginCapture_v2", 10010},
		{"cuDevicePrimaryCtxRelease_v2", 11000},
		{"cuDevicePrimaryCtxReset_v2", 11000},
		{"cuDevicePrimaryCtxSetFlags_v2", 11000},
		{"cuGraphInstantiate_v2", 11000},
		{"cuStreamGetCaptureInfo_v2", 11030},
		{"cuDeviceGetUuid_v2", 11040},
		{"cuGetProcAddress_v2", 12000},
		{"cuGraphAddKernelNode_v2", 12000},
		{"cuGraphKernelNodeGetParams_v2", 12000},
		{"cuGraphExecKernelNodeSetParams_v2", 12000},
		{"cuStreamGetCaptureInfo_v3", 12030},
		{"cuStreamUpdateCaptureDependencies_v2", 12030},
		{"cuGraphAddDependencies_v2", 12030},
		{"cuEventElapsedTime_v2", 12080},
		{"cuGraphExecUpdate_v2", 12000},
		{"cuGraphNodeGetDependencies_v2", 12030},
		{"cuMemAdvise_v2", 12020},
		{"cuMemPrefetchAsync_v2", 12020},
		{"cuStreamGetCtx_v2", 12050},
		{"cuCtxGetDevice_v2", 13000},
		{"cuCtxSynchronize_v2", 13000},
		{"cuLaunchHostFunc_v2", 13020},
		{"cuLinkCreate_v2", 6050},
		{"cuLinkAddData_v2", 6050},
		{"cuLinkAddFile_v2", 6050},
	};
	for (unsigned i = 0; i < sizeof variants / sizeof *variants; i++)
		if (strcmp(variants[i].symbol, symbol) == 0)
			return variants[i].since;
	return strstr(symbol, "_v2") ? 3020 : 0;
}

static void *find_variant(const char *name, int version, int per_thread)
{
	static const char *const variants[] = {"_v4", "_v3", "_v2", ""};
	for (unsigned i = 0; i < sizeof variants / sizeof *variants; i++) {
		char symbol[128], threaded[160];
		snprintf(symbol, sizeof symbol, "%s%s", name, variants[i]);
		if (variant_since(symbol) > version)
			continue;
		void *found = NULL;
		for (int p = 0; per_thread && !found && p < 2; p++) {
			snprintf(threaded, sizeof threaded, "%s%s", symbol, p ? "_ptds" : "_ptsz");
			found = entry_find(threaded);
		}
		if (!found)
			found = entry_find(symbol);
		if (found)
			return found;
	}
	return NULL;
}

static CUresult get_address(const char *name, void **function, int version, cuuint64_t flags)
{
	if (!name || !function || version < 2000)
		return CUDA_ERROR_INVALID_VALUE;
	/* From 12.0 on cuGraphInstantiate is another function, not another variant. */
	if (strcmp(name, "cuGraphInstantiate") == 0 && version >= 12000)
		name = "cuGraphInstantiateWithFlags";
	*function = find_variant(name, version, (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0);
	return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags)
{
	return get_address(name, function, version, flags);
}

CUresult cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags,
			     CUdriverProcAddressQueryResult *status)
{
	CUresult result = get_address(name, function, version, flags);
	if (status)
		*status = result == CUDA_SUCCESS ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return result;
}
