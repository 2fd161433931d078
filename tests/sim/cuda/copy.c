/* copy.c - copies and sets. Any thread. They really happen, when the model's time for them has come. What a copy costs: the
 * script's least, or its bytes by the bandwidth between the two kinds of memory. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

static uint64_t transfer_time(uint64_t bytes, uint8_t kind)
{
	uint64_t least = script_time("copy", 2000);
	uint64_t rate = kind == COPY_DTOD || kind == COPY_PTOP ? script_number("device_bandwidth", 1000000000000u)
							       : script_number("bandwidth", 25000000000u);
	uint64_t duration = rate ? (uint64_t)((double)bytes * 1e9 / (double)rate) : 0;
	return duration > least ? duration : least;
}

static uint8_t copy_kind(uint8_t source, uint8_t target)
{
	int from_device = source == MEMORY_DEVICE || source == MEMORY_MANAGED;
	int to_device = target == MEMORY_DEVICE || target == MEMORY_MANAGED;
	return from_device ? (to_device ? COPY_DTOD : COPY_DTOH) : (to_device ? COPY_HTOD : COPY_HTOH);
}

static void describe(struct work *work, size_t bytes, uint8_t kind, uint8_t source_kind, uint8_t target_kind,
		     int asynchronous)
{
	work->record.kind = kind == COPY_PTOP ? SIM_PEER_COPY : SIM_COPY;
	work->record.bytes = bytes;
	work->record.copy_kind = kind;
	work->record.source_kind = source_kind;
	work->record.target_kind = target_kind;
	work->record.asynchronous = (uint8_t)asynchronous;
	work->duration = transfer_time(bytes, kind);
	work->action = ACTION_COPY;
}

/* One row. kind 0: as the addresses say. */
static void flat_work(struct work *work, uint64_t target, uint64_t source, size_t bytes, uint8_t kind, int asynchronous)
{
	uint8_t from = memory_kind((const void *)source), to = memory_kind((const void *)target);
	*work = (struct work){
		.copy = {.target = (char *)target, .source = (const char *)source, .width = bytes, .height = 1}};
	describe(work, bytes, kind ? kind : copy_kind(from, to), from, to, asynchronous);
}

/* Submits a copy; one that is not asynchronous, or writes pageable memory, is over when this returns. What is read from
 * pageable memory is read now, since it may be gone when the copy's time has come. */
static CUresult submit_copy(struct scope *scope, CUstream handle, struct work *work)
{
	struct CUstream_st *stream = current_context() ? stream_of(scope, handle) : NULL;
	if (!stream)
		return current_context() ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_CONTEXT;
	if (!work->record.bytes)
		return CUDA_SUCCESS;
	int capturing = stream_capturing(stream), asynchronous = work->record.asynchronous;
	if (capturing && !asynchronous)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (!capturing && asynchronous && work->record.source_kind == MEMORY_PAGEABLE && work->copy.height == 1) {
		work->copy.staged = malloc(work->copy.width);
		if (!work->copy.staged)
			return CUDA_ERROR_OUT_OF_MEMORY;
		memcpy(work->copy.staged, work->copy.source, work->copy.width);
		work->copy.source = work->copy.staged;
	} else if (work->record.source_kind == MEMORY_PAGEABLE) {
		asynchronous = 0;
	}
	if (work->record.target_kind == MEMORY_PAGEABLE)
		asynchronous = 0;
	CUresult result = submit(scope, stream, work);
	if (result != CUDA_SUCCESS)
		free(work->copy.staged);
	else if (!asynchronous && !capturing)
		stream_drain(stream);
	return result;
}

static CUresult copy(struct scope *scope, uint64_t target, uint64_t source, size_t bytes, uint8_t kind, CUstream stream,
		     int asynchronous)
{
	struct work work;
	struct allocation found;
	if (bytes && ((kind == COPY_HTOD || kind == COPY_DTOD) && allocation_find(target, &found)))
		return CUDA_ERROR_INVALID_VALUE;
	if (bytes && ((kind == COPY_DTOH || kind == COPY_DTOD) && allocation_find(source, &found)))
		return CUDA_ERROR_INVALID_VALUE;
	flat_work(&work, target, source, bytes, kind, asynchronous);
	return submit_copy(scope, stream, &work);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr target, const void *source, size_t bytes)
{
	CALL(cuMemcpyHtoD, _v2);
	RETURN(copy(&scope, target, (uint64_t)source, bytes, COPY_HTOD, NULL, 0));
}

CUresult cuMemcpyDtoH_v2(void *target, CUdeviceptr source, size_t bytes)
{
	CALL(cuMemcpyDtoH, _v2);
	RETURN(copy(&scope, (uint64_t)target, source, bytes, COPY_DTOH, NULL, 0));
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr target, CUdeviceptr source, size_t bytes)
{
	CALL(cuMemcpyDtoD, _v2);
	RETURN(copy(&scope, target, source, bytes, COPY_DTOD, NULL, 0));
}

CUresult cuMemcpy(CUdeviceptr target, CUdeviceptr source, size_t bytes)
{
	CALL(cuMemcpy, );
	RETURN(copy(&scope, target, source, bytes, 0, NULL, 0));
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr target, const void *source, size_t bytes, CUstream stream)
{
	CALL(cuMemcpyHtoDAsync, _v2);
	RETURN(copy(&scope, target, (uint64_t)source, bytes, COPY_HTOD, stream, 1));
}

CUresult cuMemcpyDtoHAsync_v2(void *target, CUdeviceptr source, size_t bytes, CUstream stream)
{
	CALL(cuMemcpyDtoHAsync, _v2);
	RETURN(copy(&scope, (uint64_t)target, source, bytes, COPY_DTOH, stream, 1));
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream)
{
	CALL(cuMemcpyDtoDAsync, _v2);
	RETURN(copy(&scope, target, source, bytes, COPY_DTOD, stream, 1));
}

CUresult cuMemcpyAsync(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream)
{
	CALL(cuMemcpyAsync, );
	RETURN(copy(&scope, target, source, bytes, 0, stream, 1));
}

static CUresult peer_copy(struct scope *scope, CUdeviceptr target, CUcontext target_context, CUdeviceptr source,
			  CUcontext source_context, size_t bytes, CUstream stream, int asynchronous)
{
	struct work work;
	struct allocation found;
	if (!context_valid(target_context) || !context_valid(source_context))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (allocation_find(target, &found) || allocation_find(source, &found))
		return CUDA_ERROR_INVALID_VALUE;
	flat_work(&work, target, source, bytes,
		  target_context->device == source_context->device ? COPY_DTOD : COPY_PTOP, asynchronous);
	work.record.target_device = target_context->device->facts.id;
	work.record.target_context = target_context->id;
	work.record.source_device = source_context->device->facts.id;
	work.record.source_context = source_context->id;
	return submit_copy(scope, stream, &work);
}

CUresult cuMemcpyPeer(CUdeviceptr target, CUcontext target_context, CUdeviceptr source, CUcontext source_context,
		      size_t bytes)
{
	CALL(cuMemcpyPeer, );
	RETURN(peer_copy(&scope, target, target_context, source, source_context, bytes, NULL, 0));
}

CUresult cuMemcpyPeerAsync(CUdeviceptr target, CUcontext target_context, CUdeviceptr source, CUcontext source_context,
			   size_t bytes, CUstream stream)
{
	CALL(cuMemcpyPeerAsync, );
	RETURN(peer_copy(&scope, target, target_context, source, source_context, bytes, stream, 1));
}

/* ---- copies of two dimensions, and of three as far as they are flat */

static uint64_t side(CUmemorytype type, const void *host, CUdeviceptr device)
{
	return type == CU_MEMORYTYPE_HOST ? (uint64_t)host : device;
}

CUresult copy_work(struct work *work, const CUDA_MEMCPY3D *c, int asynchronous)
{
	if (c->srcMemoryType == CU_MEMORYTYPE_ARRAY || c->dstMemoryType == CU_MEMORYTYPE_ARRAY || c->Depth > 1)
		return CUDA_ERROR_NOT_SUPPORTED;
	uint64_t source = side(c->srcMemoryType, c->srcHost, c->srcDevice);
	uint64_t target = side(c->dstMemoryType, c->dstHost, c->dstDevice);
	size_t source_pitch = c->srcPitch ? c->srcPitch : c->WidthInBytes;
	size_t target_pitch = c->dstPitch ? c->dstPitch : c->WidthInBytes;
	if (source_pitch < c->WidthInBytes || target_pitch < c->WidthInBytes)
		return CUDA_ERROR_INVALID_VALUE;
	source += c->srcY * source_pitch + c->srcXInBytes;
	target += c->dstY * target_pitch + c->dstXInBytes;
	uint8_t from = memory_kind((const void *)source), to = memory_kind((const void *)target);
	if ((c->srcMemoryType == CU_MEMORYTYPE_DEVICE && from == MEMORY_PAGEABLE) ||
	    (c->dstMemoryType == CU_MEMORYTYPE_DEVICE && to == MEMORY_PAGEABLE))
		return CUDA_ERROR_INVALID_VALUE;
	*work = (struct work){.copy = {.target = (char *)target,
				       .source = (const char *)source,
				       .target_pitch = target_pitch,
				       .source_pitch = source_pitch,
				       .width = c->WidthInBytes,
				       .height = c->Height}};
	describe(work, c->WidthInBytes * c->Height, copy_kind(from, to), from, to, asynchronous);
	return CUDA_SUCCESS;
}

static CUresult copy_2d(struct scope *scope, const CUDA_MEMCPY2D *c, CUstream stream, int asynchronous)
{
	struct work work;
	if (!c)
		return CUDA_ERROR_INVALID_VALUE;
	CUDA_MEMCPY3D flat = {.srcXInBytes = c->srcXInBytes,
			      .srcY = c->srcY,
			      .srcMemoryType = c->srcMemoryType,
			      .srcHost = c->srcHost,
			      .srcDevice = c->srcDevice,
			      .srcPitch = c->srcPitch,
			      .dstXInBytes = c->dstXInBytes,
			      .dstY = c->dstY,
			      .dstMemoryType = c->dstMemoryType,
			      .dstHost = c->dstHost,
			      .dstDevice = c->dstDevice,
			      .dstPitch = c->dstPitch,
			      .WidthInBytes = c->WidthInBytes,
			      .Height = c->Height,
			      .Depth = 1};
	CUresult result = copy_work(&work, &flat, asynchronous);
	return result == CUDA_SUCCESS ? submit_copy(scope, stream, &work) : result;
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *c)
{
	CALL(cuMemcpy2D, _v2);
	RETURN(copy_2d(&scope, c, NULL, 0));
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *c)
{
	CALL(cuMemcpy2DUnaligned, _v2);
	RETURN(copy_2d(&scope, c, NULL, 0));
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *c, CUstream stream)
{
	CALL(cuMemcpy2DAsync, _v2);
	RETURN(copy_2d(&scope, c, stream, 1));
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *c)
{
	CALL(cuMemcpy3D, _v2);
	struct work work;
	CUresult result = copy_work(&work, c, 0);
	RETURN(result == CUDA_SUCCESS ? submit_copy(&scope, NULL, &work) : result);
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *c, CUstream stream)
{
	CALL(cuMemcpy3DAsync, _v2);
	struct work work;
	CUresult result = copy_work(&work, c, 1);
	RETURN(result == CUDA_SUCCESS ? submit_copy(&scope, stream, &work) : result);
}

/* ---- sets */

void set_work(struct work *work, CUdeviceptr target, size_t pitch, uint32_t value, unsigned size, size_t width,
	      size_t height, int asynchronous)
{
	*work = (struct work){
		.record = {.kind = SIM_SET,
			   .bytes = width * height * size,
			   .value = value,
			   .target_kind = memory_kind((const void *)target),
			   .asynchronous = (uint8_t)asynchronous},
		.duration = script_time("set", 2000),
		.action = ACTION_SET,
		.set = {.target = (char *)target, .pitch = pitch, .width = width, .height = height, .size = size}};
}

static CUresult set(struct scope *scope, CUdeviceptr target, size_t pitch, uint32_t value, unsigned size, size_t width,
		    size_t height, CUstream handle, int asynchronous)
{
	struct work work;
	if (!current_context())
		return CUDA_ERROR_INVALID_CONTEXT;
	struct CUstream_st *stream = stream_of(scope, handle);
	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!width || !height)
		return CUDA_SUCCESS;
	set_work(&work, target, pitch, value, size, width, height, asynchronous);
	if (work.record.target_kind == MEMORY_PAGEABLE)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = submit(scope, stream, &work);
	if (result == CUDA_SUCCESS && !asynchronous)
		stream_drain(stream);
	return result;
}

#define SET_CALLS(bits, type)                                                                                          \
	CUresult cuMemsetD##bits##_v2(CUdeviceptr target, type value, size_t count)                                    \
	{                                                                                                              \
		CALL(cuMemsetD##bits, _v2);                                                                            \
		RETURN(set(&scope, target, 0, value, sizeof value, count, 1, NULL, 0));                                \
	}                                                                                                              \
	CUresult cuMemsetD##bits##Async(CUdeviceptr target, type value, size_t count, CUstream stream)                 \
	{                                                                                                              \
		CALL(cuMemsetD##bits##Async, );                                                                        \
		RETURN(set(&scope, target, 0, value, sizeof value, count, 1, stream, 1));                              \
	}                                                                                                              \
	CUresult cuMemsetD2D##bits##_v2(CUdeviceptr target, size_t pitch, type value, size_t width, size_t height)     \
	{                                                                                                              \
		CALL(cuMemsetD2D##bits, _v2);                                                                          \
		RETURN(set(&scope, target, pitch, value, sizeof value, width, height, NULL, 0));                       \
	}                                                                                                              \
	CUresult cuMemsetD2D##bits##Async(CUdeviceptr target, size_t pitch, type value, size_t width, size_t height,   \
					  CUstream stream)                                                             \
	{                                                                                                              \
		CALL(cuMemsetD2D##bits##Async, );                                                                      \
		RETURN(set(&scope, target, pitch, value, sizeof value, width, height, stream, 1));                     \
	}

SET_CALLS(8, unsigned char)
SET_CALLS(16, unsigned short)
SET_CALLS(32, unsigned int)
