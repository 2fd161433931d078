/* device.c - the simulated devices and what can be asked about them. Any thread; the devices do not change after cuInit. */
#include "internal.h"

#include <stdio.h>
#include <string.h>

struct device devices[DEVICES_MAX];
unsigned device_count;

void devices_init(void)
{
	uint64_t wanted = script_number("devices", 1);
	device_count = wanted > DEVICES_MAX ? DEVICES_MAX : (unsigned)wanted;
	for (unsigned i = 0; i < device_count; i++) {
		devices[i].facts = (struct sim_device){.id = i,
						       .name = SIMCUDA_DEVICE_PREFIX "A100",
						       .uuid = "simulated-gpu-0",
						       .memory = (uint64_t)80 << 30,
						       .multiprocessors = 108,
						       .capability_major = 8,
						       .capability_minor = 0,
						       .warp = 32,
						       .max_threads_block = 1024,
						       .max_threads_multiprocessor = 2048,
						       .registers_block = 65536,
						       .registers_multiprocessor = 65536,
						       .shared_block = 49152,
						       .shared_multiprocessor = 167936};
		devices[i].facts.uuid[15] = (uint8_t)i;
		pools_init(&devices[i]);
	}
}

struct device *device_of(CUdevice device)
{
	return device >= 0 && (unsigned)device < device_count ? &devices[device] : NULL;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	CALL(cuDeviceGet, );
	CHECK(device, CUDA_ERROR_INVALID_VALUE);
	CHECK(device_of(ordinal), CUDA_ERROR_INVALID_DEVICE);
	*device = ordinal;
	RETURN(CUDA_SUCCESS);
}

CUresult cuDeviceGetCount(int *count)
{
	CALL(cuDeviceGetCount, );
	CHECK(count, CUDA_ERROR_INVALID_VALUE);
	*count = (int)device_count;
	RETURN(CUDA_SUCCESS);
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
	CALL(cuDeviceGetName, );
	CHECK(name && length > 0, CUDA_ERROR_INVALID_VALUE);
	CHECK(device_of(device), CUDA_ERROR_INVALID_DEVICE);
	snprintf(name, (size_t)length, "%s", devices[device].facts.name);
	RETURN(CUDA_SUCCESS);
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
	CALL(cuDeviceGetUuid, );
	CHECK(device_of(device), CUDA_ERROR_INVALID_DEVICE);
	memcpy(uuid, devices[device].facts.uuid, sizeof *uuid);
	RETURN(CUDA_SUCCESS);
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
	CALL(cuDeviceGetUuid, _v2);
	CHECK(device_of(device), CUDA_ERROR_INVALID_DEVICE);
	memcpy(uuid, devices[device].facts.uuid, sizeof *uuid);
	RETURN(CUDA_SUCCESS);
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
	CALL(cuDeviceTotalMem, _v2);
	CHECK(device_of(device), CUDA_ERROR_INVALID_DEVICE);
	*bytes = devices[device].facts.memory;
	RETURN(CUDA_SUCCESS);
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
	CALL(cuDeviceComputeCapability, );
	CHECK(device_of(device), CUDA_ERROR_INVALID_DEVICE);
	*major = (int)devices[device].facts.capability_major;
	*minor = (int)devices[device].facts.capability_minor;
	RETURN(CUDA_SUCCESS);
}

CUresult cuDeviceGetPCIBusId(char *id, int length, CUdevice device)
{
	CALL(cuDeviceGetPCIBusId, );
	CHECK(id && length > 0, CUDA_ERROR_INVALID_VALUE);
	CHECK(device_of(device), CUDA_ERROR_INVALID_DEVICE);
	snprintf(id, (size_t)length, "0000:%02x:00.0", ((unsigned)device + 1) & 0xff);
	RETURN(CUDA_SUCCESS);
}

CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *id)
{
	CALL(cuDeviceGetByPCIBusId, );
	for (unsigned i = 0; i < device_count; i++) {
		char own[16];
		snprintf(own, sizeof own, "0000:%02x:00.0", (i + 1) & 0xff);
		if (strcmp(own, id) == 0) {
			*device = (CUdevice)i;
			RETURN(CUDA_SUCCESS);
		}
	}
	RETURN(CUDA_ERROR_INVALID_DEVICE);
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
	CALL(cuDeviceCanAccessPeer, );
	CHECK(device_of(device) && device_of(peer), CUDA_ERROR_INVALID_DEVICE);
	*can = device != peer;
	RETURN(CUDA_SUCCESS);
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice device, CUdevice peer)
{
	CALL(cuDeviceGetP2PAttribute, );
	CHECK(device_of(device) && device_of(peer) && device != peer, CUDA_ERROR_INVALID_DEVICE);
	*value = attribute == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED;
	RETURN(CUDA_SUCCESS);
}

/* Attributes that are not facts of struct sim_device: those of an A100, as far as programs use them. */
static int attribute_value(const struct sim_device *facts, CUdevice_attribute attribute)
{
	switch ((int)attribute) {
	case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		return (int)facts->max_threads_block;
	case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
	case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
		return 1024;
	case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
		return 64;
	case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
		return INT32_MAX;
	case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
	case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
		return 65535;
	case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
		return (int)facts->shared_block;
	case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
		return 166912;
	case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
		return (int)facts->shared_multiprocessor;
	case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY:
		return 65536;
	case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
		return (int)facts->warp;
	case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
		return INT32_MAX;
	case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
		return (int)facts->registers_block;
	case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
		return (int)facts->registers_multiprocessor;
	case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
		return 1410000;
	case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
		return 1512000;
	case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
		return 5120;
	case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
		return 40 << 20;
	case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT:
		return 512;
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
		return (int)facts->multiprocessors;
	case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
		return (int)facts->max_threads_multiprocessor;
	case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
		return 32;
	case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
		return 3;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
		return (int)facts->capability_major;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
		return (int)facts->capability_minor;
	case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
		return (int)facts->id + 1;
	case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
	case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
	case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
	case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
	case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
	case CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
	case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
	case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
		return 1;
	default:
		return 0;
	}
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	CALL(cuDeviceGetAttribute, );
	CHECK(value && (int)attribute > 0 && attribute < CU_DEVICE_ATTRIBUTE_MAX, CUDA_ERROR_INVALID_VALUE);
	CHECK(device_of(device), CUDA_ERROR_INVALID_DEVICE);
	*value = attribute_value(&devices[device].facts, attribute);
	RETURN(CUDA_SUCCESS);
}
