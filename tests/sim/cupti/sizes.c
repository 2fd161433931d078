/* sizes.c - how long each kind of record is in this release, and the walk through a buffer. Any thread; no state. */
#include "simcupti.h"

#define ROW(kind, type) [kind] = sizeof(type)

static const uint16_t sizes[KINDS_MAX] = {
	ROW(CUPTI_ACTIVITY_KIND_MEMCPY, sim_Memcpy),
	ROW(CUPTI_ACTIVITY_KIND_MEMSET, sim_Memset),
	ROW(CUPTI_ACTIVITY_KIND_KERNEL, sim_Kernel),
	ROW(CUPTI_ACTIVITY_KIND_DRIVER, sim_API),
	ROW(CUPTI_ACTIVITY_KIND_RUNTIME, sim_API),
	ROW(CUPTI_ACTIVITY_KIND_DEVICE, sim_Device),
	ROW(CUPTI_ACTIVITY_KIND_CONTEXT, sim_Context),
	ROW(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, sim_Kernel),
	ROW(CUPTI_ACTIVITY_KIND_NAME, sim_Name),
	ROW(CUPTI_ACTIVITY_KIND_MARKER, sim_Marker),
	ROW(CUPTI_ACTIVITY_KIND_MARKER_DATA, sim_MarkerData),
	ROW(CUPTI_ACTIVITY_KIND_OVERHEAD, sim_Overhead),
	ROW(CUPTI_ACTIVITY_KIND_CDP_KERNEL, sim_CdpKernel),
	ROW(CUPTI_ACTIVITY_KIND_PREEMPTION, sim_Preemption),
	ROW(CUPTI_ACTIVITY_KIND_ENVIRONMENT, sim_Environment),
	ROW(CUPTI_ACTIVITY_KIND_MEMCPY2, sim_MemcpyPtoP),
	ROW(CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER, sim_UnifiedMemoryCounter),
	ROW(CUPTI_ACTIVITY_KIND_FUNCTION, sim_Function),
	ROW(CUPTI_ACTIVITY_KIND_MODULE, sim_Module),
	ROW(CUPTI_ACTIVITY_KIND_DEVICE_ATTRIBUTE, sim_DeviceAttribute),
#if SIM_RELEASE_NUMBER < 1300 /* its headers still have these, the library no longer */
	ROW(CUPTI_ACTIVITY_KIND_EVENT, sim_Event),
	ROW(CUPTI_ACTIVITY_KIND_METRIC, sim_Metric),
	ROW(CUPTI_ACTIVITY_KIND_SOURCE_LOCATOR, sim_SourceLocator),
	ROW(CUPTI_ACTIVITY_KIND_GLOBAL_ACCESS, sim_GlobalAccess),
	ROW(CUPTI_ACTIVITY_KIND_BRANCH, sim_Branch),
	ROW(CUPTI_ACTIVITY_KIND_EVENT_INSTANCE, sim_EventInstance),
	ROW(CUPTI_ACTIVITY_KIND_METRIC_INSTANCE, sim_MetricInstance),
	ROW(CUPTI_ACTIVITY_KIND_INSTRUCTION_EXECUTION, sim_InstructionExecution),
	ROW(CUPTI_ACTIVITY_KIND_SHARED_ACCESS, sim_SharedAccess),
	ROW(CUPTI_ACTIVITY_KIND_PC_SAMPLING, sim_PCSampling),
	ROW(CUPTI_ACTIVITY_KIND_PC_SAMPLING_RECORD_INFO, sim_PCSamplingRecordInfo),
	ROW(CUPTI_ACTIVITY_KIND_INSTRUCTION_CORRELATION, sim_InstructionCorrelation),
	ROW(CUPTI_ACTIVITY_KIND_INSTANTANEOUS_EVENT, sim_InstantaneousEvent),
	ROW(CUPTI_ACTIVITY_KIND_INSTANTANEOUS_EVENT_INSTANCE, sim_InstantaneousEventInstance),
	ROW(CUPTI_ACTIVITY_KIND_INSTANTANEOUS_METRIC, sim_InstantaneousMetric),
	ROW(CUPTI_ACTIVITY_KIND_INSTANTANEOUS_METRIC_INSTANCE, sim_InstantaneousMetricInstance),
#endif
	ROW(CUPTI_ACTIVITY_KIND_OPENACC_DATA, sim_OpenAccData),
	ROW(CUPTI_ACTIVITY_KIND_OPENACC_LAUNCH, sim_OpenAccLaunch),
	ROW(CUPTI_ACTIVITY_KIND_OPENACC_OTHER, sim_OpenAccOther),
	ROW(CUPTI_ACTIVITY_KIND_CUDA_EVENT, sim_CudaEvent),
	ROW(CUPTI_ACTIVITY_KIND_STREAM, sim_Stream),
	ROW(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, sim_Synchronization),
	ROW(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, sim_ExternalCorrelation),
	ROW(CUPTI_ACTIVITY_KIND_NVLINK, sim_NvLink),
	ROW(CUPTI_ACTIVITY_KIND_MEMORY, CUpti_ActivityMemory),
	ROW(CUPTI_ACTIVITY_KIND_PCIE, sim_Pcie),
	ROW(CUPTI_ACTIVITY_KIND_OPENMP, sim_OpenMp),
	ROW(CUPTI_ACTIVITY_KIND_INTERNAL_LAUNCH_API, sim_API),
	ROW(CUPTI_ACTIVITY_KIND_MEMORY2, sim_Memory),
	ROW(CUPTI_ACTIVITY_KIND_MEMORY_POOL, sim_MemoryPool),
	ROW(CUPTI_ACTIVITY_KIND_GRAPH_TRACE, sim_GraphTrace),
#ifdef VERSION_JIT
	ROW(CUPTI_ACTIVITY_KIND_JIT, sim_Jit),
#endif
#ifdef VERSION_DEVICEGRAPHTRACE
	ROW(CUPTI_ACTIVITY_KIND_DEVICE_GRAPH_TRACE, sim_DeviceGraphTrace),
#endif
#ifdef VERSION_MEMDECOMPRESS
	ROW(CUPTI_ACTIVITY_KIND_MEM_DECOMPRESS, sim_MemDecompress),
#endif
#ifdef VERSION_CONFIDENTIALCOMPUTEROTATION
	ROW(CUPTI_ACTIVITY_KIND_CONFIDENTIAL_COMPUTE_ROTATION, sim_ConfidentialComputeRotation),
#endif
#ifdef VERSION_GRAPHHOSTNODE
	ROW(CUPTI_ACTIVITY_KIND_GRAPH_HOST_NODE, sim_GraphHostNode),
#endif
#ifdef VERSION_COMPUTEENGINECTXSWITCH
	ROW(CUPTI_ACTIVITY_KIND_COMPUTE_ENGINE_CTX_SWITCH, sim_ComputeEngineCtxSwitch),
#endif
#ifdef VERSION_HOSTLAUNCH
	ROW(CUPTI_ACTIVITY_KIND_HOST_LAUNCH, sim_HostLaunch),
#endif
#ifdef VERSION_GREENCONTEXT
	ROW(CUPTI_ACTIVITY_KIND_GREEN_CONTEXT, sim_GreenContext),
#endif
};

size_t sim_record_size(uint32_t kind)
{
	if (kind < KINDS_MAX && sizes[kind])
		return sizes[kind] + trouble_growth(kind);
	return trouble_kind_size(kind);
}

CUptiResult sim_next_record(uint8_t *buffer, size_t valid, CUpti_Activity **record)
{
	if (!buffer || !record)
		return CUPTI_ERROR_INVALID_PARAMETER;
	size_t at = 0;
	if (*record)
		at = (size_t)((uint8_t *)*record - buffer) + sim_record_size((*record)->kind);
	if (at + sizeof(CUpti_ActivityKind) > valid)
		return CUPTI_ERROR_MAX_LIMIT_REACHED;
	const CUpti_Activity *next = (const CUpti_Activity *)(buffer + at);
	size_t size = sim_record_size(next->kind);
	if (!size)
		return SIM_RELEASE_NUMBER < 1204 ? CUPTI_ERROR_UNKNOWN : CUPTI_ERROR_INVALID_KIND;
	if (at + size > valid)
		return CUPTI_ERROR_MAX_LIMIT_REACHED;
	*record = (CUpti_Activity *)(buffer + at);
	return CUPTI_SUCCESS;
}
