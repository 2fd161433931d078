/* memory.c - memory of devices, pinned and managed memory, pools. All of it is host memory; a table by address says what each
 * piece is. Any thread; memory_lock guards the table and the pools' figures. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Larger pieces are mapped, so that what is never touched costs nothing. */
enum { MAPPED_FROM = 1 << 20, ALIGNMENT = 512, POOL_GRAIN = 32 << 20, POOL_MAGIC = 0x706f6f6c };

struct CUmemPoolHandle_st {
	uint32_t magic;
	struct device *device;
	uint64_t reserved, reserved_high, used, used_high, threshold;
};

static pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;
static struct allocation *table; /* ascending */
static size_t table_count, table_room;

/* The first piece that does not end before `address`. memory_lock held. */
static size_t lower_bound(uint64_t address)
{
	size_t low = 0, high = table_count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (table[middle].address + table[middle].bytes <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int insert(const struct allocation *piece)
{
	if (table_count == table_room) {
		size_t room = table_room ? 2 * table_room : 256;
		struct allocation *grown = realloc(table, room * sizeof *table);
		if (!grown)
			return -1;
		table = grown;
		table_room = room;
	}
	size_t at = lower_bound(piece->address);
	memmove(table + at + 1, table + at, (table_count - at) * sizeof *table);
	table[at] = *piece;
	table_count++;
	return 0;
}

static int find(uint64_t address, size_t *at)
{
	*at = lower_bound(address);
	return *at < table_count && table[*at].address <= address ? 0 : -1;
}

int allocation_find(uint64_t address, struct allocation *found)
{
	size_t at;
	pthread_mutex_lock(&memory_lock);
	int error = find(address, &at);
	if (!error)
		*found = table[at];
	pthread_mutex_unlock(&memory_lock);
	return error;
}

uint8_t memory_kind(const void *address)
{
	struct allocation found;
	return allocation_find((uint64_t)address, &found) ? MEMORY_PAGEABLE : found.kind;
}

static void tell(const struct scope *scope, const struct allocation *piece, uint32_t stream, int allocated)
{
	if (!scope || !scope->observer || !scope->observer->memory)
		return;
	struct CUmemPoolHandle_st *pool = piece->pool;
	struct sim_memory facts = {.allocated = (uint32_t)allocated,
				   .correlation = scope->correlation,
				   .device = piece->device->facts.id,
				   .context = piece->context->id,
				   .stream = stream,
				   .address = piece->address,
				   .bytes = piece->bytes,
				   .time = now(),
				   .memory_kind = piece->kind,
				   .pooled = pool != NULL,
				   .pool = (uint64_t)pool};
	if (pool) {
		pthread_mutex_lock(&memory_lock);
		facts.pool_size = pool->reserved;
		facts.pool_utilized = pool->used;
		pthread_mutex_unlock(&memory_lock);
	}
	scope->observer->memory(&facts);
}

static void pool_account(struct CUmemPoolHandle_st *pool, uint64_t bytes, int taken)
{
	if (!pool)
		return;
	pool->used = taken ? pool->used + bytes : pool->used - bytes;
	if (pool->used > pool->reserved)
		pool->reserved = (pool->used + POOL_GRAIN - 1) / POOL_GRAIN * POOL_GRAIN;
	if (pool->used > pool->used_high)
		pool->used_high = pool->used;
	if (pool->reserved > pool->reserved_high)
		pool->reserved_high = pool->reserved;
}

static uint64_t take(size_t bytes, int mapped)
{
	void *address;
	if (mapped) {
		address = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		return address == MAP_FAILED ? 0 : (uint64_t)address;
	}
	if (posix_memalign(&address, ALIGNMENT, bytes))
		return 0;
	memset(address, 0, bytes);
	return (uint64_t)address;
}

static void give_back(const struct allocation *piece)
{
	if (piece->kind != MEMORY_PINNED && !piece->registered)
		atomic_fetch_sub(&piece->device->used, piece->bytes);
	if (piece->registered)
		return;
	if (piece->mapped)
		munmap((void *)piece->address, piece->bytes);
	else
		free((void *)piece->address);
}

CUresult allocate(struct scope *scope, struct CUctx_st *context, size_t bytes, uint8_t kind,
		  struct CUmemPoolHandle_st *pool, uint32_t stream, uint64_t *address)
{
	if (!bytes || !address)
		return CUDA_ERROR_INVALID_VALUE;
	struct allocation piece = {.bytes = bytes,
				   .kind = kind,
				   .mapped = bytes >= MAPPED_FROM,
				   .device = context->device,
				   .context = context,
				   .pool = pool};
	if (kind != MEMORY_PINNED &&
	    atomic_fetch_add(&piece.device->used, bytes) + bytes > piece.device->facts.memory) {
		atomic_fetch_sub(&piece.device->used, bytes);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	piece.address = take(bytes, piece.mapped);
	pthread_mutex_lock(&memory_lock);
	int error = !piece.address || insert(&piece);
	if (!error)
		pool_account(pool, bytes, 1);
	pthread_mutex_unlock(&memory_lock);
	if (error) {
		give_back(&piece);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	tell(scope, &piece, stream, 1);
	*address = piece.address;
	return CUDA_SUCCESS;
}

/* Takes a piece out of the table. */
static int remove_piece(uint64_t address, struct allocation *piece)
{
	size_t at;
	pthread_mutex_lock(&memory_lock);
	int error = find(address, &at) || table[at].address != address;
	if (!error) {
		*piece = table[at];
		memmove(table + at, table + at + 1, (table_count - at - 1) * sizeof *table);
		table_count--;
		pool_account(piece->pool, piece->bytes, 0);
	}
	pthread_mutex_unlock(&memory_lock);
	return error;
}

CUresult allocation_free(uint64_t address)
{
	struct allocation piece;
	if (remove_piece(address, &piece))
		return CUDA_ERROR_INVALID_VALUE;
	give_back(&piece);
	return CUDA_SUCCESS;
}

/* What a context leaves behind. */
void memory_reset(struct CUctx_st *context)
{
	struct allocation piece;
	for (int found = 1; found;) {
		found = 0;
		pthread_mutex_lock(&memory_lock);
		for (size_t i = 0; i < table_count && !found; i++)
			if (table[i].context == context) {
				piece = table[i];
				found = 1;
			}
		pthread_mutex_unlock(&memory_lock);
		if (found)
			allocation_free(piece.address);
	}
}

static CUresult release(struct scope *scope, uint64_t address)
{
	struct allocation piece;
	if (!address)
		return CUDA_SUCCESS;
	if (allocation_find(address, &piece) || piece.address != address)
		return CUDA_ERROR_INVALID_VALUE;
	context_drain(piece.context); /* freeing waits, as the real one does */
	if (remove_piece(address, &piece))
		return CUDA_ERROR_INVALID_VALUE;
	tell(scope, &piece, 0, 0);
	give_back(&piece);
	return CUDA_SUCCESS;
}

/* ---- device, managed and pinned memory */

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
	CALL(cuMemAlloc, _v2);
	CONTEXT(context);
	uint64_t taken = 0;
	CUresult result = allocate(&scope, context, bytes, MEMORY_DEVICE, NULL, 0, &taken);
	*address = taken;
	RETURN(result);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width, size_t height, unsigned int element)
{
	CALL(cuMemAllocPitch, _v2);
	CONTEXT(context);
	(void)element;
	uint64_t taken = 0;
	*pitch = (width + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	CUresult result = allocate(&scope, context, *pitch * height, MEMORY_DEVICE, NULL, 0, &taken);
	*address = taken;
	RETURN(result);
}

CUresult cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned int flags)
{
	CALL(cuMemAllocManaged, );
	CONTEXT(context);
	(void)flags;
	uint64_t taken = 0;
	CUresult result = allocate(&scope, context, bytes, MEMORY_MANAGED, NULL, 0, &taken);
	*address = taken;
	RETURN(result);
}

CUresult cuMemFree_v2(CUdeviceptr address)
{
	CALL(cuMemFree, _v2);
	CONTEXT(context);
	(void)context;
	RETURN(release(&scope, address));
}

static CUresult allocate_host(struct scope *scope, void **address, size_t bytes)
{
	struct CUctx_st *context = current_context();
	uint64_t taken = 0;
	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	CUresult result = allocate(scope, context, bytes, MEMORY_PINNED, NULL, 0, &taken);
	*address = (void *)taken;
	return result;
}

CUresult cuMemAllocHost_v2(void **address, size_t bytes)
{
	CALL(cuMemAllocHost, _v2);
	RETURN(allocate_host(&scope, address, bytes));
}

CUresult cuMemHostAlloc(void **address, size_t bytes, unsigned int flags)
{
	CALL(cuMemHostAlloc, );
	(void)flags;
	RETURN(allocate_host(&scope, address, bytes));
}

CUresult cuMemFreeHost(void *address)
{
	CALL(cuMemFreeHost, );
	CONTEXT(context);
	(void)context;
	RETURN(release(&scope, (uint64_t)address));
}

CUresult cuMemHostRegister_v2(void *address, size_t bytes, unsigned int flags)
{
	CALL(cuMemHostRegister, _v2);
	CONTEXT(context);
	(void)flags;
	struct allocation found, piece = {.address = (uint64_t)address,
					  .bytes = bytes,
					  .kind = MEMORY_PINNED,
					  .registered = 1,
					  .device = context->device,
					  .context = context};
	CHECK(address && bytes, CUDA_ERROR_INVALID_VALUE);
	CHECK(allocation_find(piece.address, &found), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	pthread_mutex_lock(&memory_lock);
	int error = insert(&piece);
	pthread_mutex_unlock(&memory_lock);
	RETURN(error ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS);
}

CUresult cuMemHostUnregister(void *address)
{
	CALL(cuMemHostUnregister, );
	struct allocation found;
	CHECK(!allocation_find((uint64_t)address, &found) && found.registered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	RETURN(allocation_free((uint64_t)address));
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *address, unsigned int flags)
{
	CALL(cuMemHostGetDevicePointer, _v2);
	(void)flags;
	CHECK(memory_kind(address) == MEMORY_PINNED, CUDA_ERROR_INVALID_VALUE);
	*device = (CUdeviceptr)address;
	RETURN(CUDA_SUCCESS);
}

CUresult cuMemGetInfo_v2(size_t *available, size_t *total)
{
	CALL(cuMemGetInfo, _v2);
	CONTEXT(context);
	*total = context->device->facts.memory;
	*available = *total - atomic_load(&context->device->used);
	RETURN(CUDA_SUCCESS);
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr address)
{
	CALL(cuMemGetAddressRange, _v2);
	struct allocation found;
	CHECK(!allocation_find(address, &found) && found.kind != MEMORY_PINNED, CUDA_ERROR_NOT_FOUND);
	if (base)
		*base = found.address;
	if (bytes)
		*bytes = found.bytes;
	RETURN(CUDA_SUCCESS);
}

static CUresult pointer_attribute(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
	struct allocation found;
	if (allocation_find(address, &found))
		return CUDA_ERROR_INVALID_VALUE;
	switch ((int)attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*(CUcontext *)data = found.context;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(unsigned *)data = found.kind == MEMORY_PINNED ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		*(CUdeviceptr *)data = address;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*(unsigned *)data = found.kind == MEMORY_MANAGED;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)data = (int)found.device->facts.id;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*(CUdeviceptr *)data = found.address;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*(size_t *)data = found.bytes;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
	CALL(cuPointerGetAttribute, );
	CHECK(data, CUDA_ERROR_INVALID_VALUE);
	RETURN(pointer_attribute(data, attribute, address));
}

/* Where the driver knows nothing of an address, it says so by zeroes. */
CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **data, CUdeviceptr address)
{
	CALL(cuPointerGetAttributes, );
	for (unsigned i = 0; i < count; i++)
		if (pointer_attribute(data[i], attributes[i], address))
			memset(data[i], 0,
			       attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ||
					       attributes[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED ||
					       attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
				       ? 4
				       : 8);
	RETURN(CUDA_SUCCESS);
}

/* Where managed memory lies is all one here: advice and prefetching are taken and have no effect. */
static CUresult managed(CUdeviceptr address)
{
	struct allocation found;
	return allocation_find(address, &found) || found.kind != MEMORY_MANAGED ? CUDA_ERROR_INVALID_VALUE
										: CUDA_SUCCESS;
}

CUresult cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUdevice device)
{
	CALL(cuMemAdvise, );
	(void)bytes, (void)advice, (void)device;
	RETURN(managed(address));
}

CUresult cuMemAdvise_v2(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUmemLocation location)
{
	CALL(cuMemAdvise, _v2);
	(void)bytes, (void)advice, (void)location;
	RETURN(managed(address));
}

CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice device, CUstream stream)
{
	CALL(cuMemPrefetchAsync, );
	(void)bytes, (void)device;
	CHECK(stream_of(&scope, stream), CUDA_ERROR_INVALID_HANDLE);
	RETURN(managed(address));
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t bytes, CUmemLocation location, unsigned int flags,
			       CUstream stream)
{
	CALL(cuMemPrefetchAsync, _v2);
	(void)bytes, (void)location, (void)flags;
	CHECK(stream_of(&scope, stream), CUDA_ERROR_INVALID_HANDLE);
	RETURN(managed(address));
}

/* ---- memory in stream order */

static int pool_valid(const struct CUmemPoolHandle_st *pool)
{
	return pool && pool->magic == POOL_MAGIC;
}

static struct CUmemPoolHandle_st *pool_new(struct device *device)
{
	struct CUmemPoolHandle_st *pool = calloc(1, sizeof *pool);
	if (pool) {
		pool->magic = POOL_MAGIC;
		pool->device = device;
	}
	return pool;
}

void pools_init(struct device *device)
{
	device->default_pool = device->pool = pool_new(device);
}

static CUresult allocate_async(struct scope *scope, CUdeviceptr *address, size_t bytes, struct CUmemPoolHandle_st *pool,
			       CUstream handle)
{
	struct CUstream_st *stream = stream_of(scope, handle);
	uint64_t taken = 0;
	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (stream_capturing(stream))
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (!pool)
		pool = stream->context->device->pool;
	if (!pool_valid(pool))
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = allocate(scope, stream->context, bytes, MEMORY_DEVICE, pool, stream->id, &taken);
	*address = taken;
	return result;
}

CUresult cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream stream)
{
	CALL(cuMemAllocAsync, );
	RETURN(allocate_async(&scope, address, bytes, NULL, stream));
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream stream)
{
	CALL(cuMemAllocFromPoolAsync, );
	CHECK(pool_valid(pool), CUDA_ERROR_INVALID_VALUE);
	RETURN(allocate_async(&scope, address, bytes, pool, stream));
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle)
{
	CALL(cuMemFreeAsync, );
	struct CUstream_st *stream = stream_of(&scope, handle);
	struct allocation piece;
	CHECK(stream, CUDA_ERROR_INVALID_HANDLE);
	CHECK(!allocation_find(address, &piece) && piece.address == address, CUDA_ERROR_INVALID_VALUE);
	CHECK(!stream_capturing(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	struct work work = {.action = ACTION_FREE, .free = address};
	tell(&scope, &piece, stream->id, 0);
	RETURN(submit(&scope, stream, &work));
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
	CALL(cuMemPoolCreate, );
	CHECK(pool && properties && device_of(properties->location.id), CUDA_ERROR_INVALID_VALUE);
	*pool = pool_new(device_of(properties->location.id));
	RETURN(*pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

/* A pool stays, unusable, because allocations from it may still be there. */
CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	CALL(cuMemPoolDestroy, );
	CHECK(pool_valid(pool) && pool != pool->device->default_pool, CUDA_ERROR_INVALID_VALUE);
	if (pool->device->pool == pool)
		pool->device->pool = pool->device->default_pool;
	pool->magic = 0;
	RETURN(CUDA_SUCCESS);
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
	CALL(cuMemPoolTrimTo, );
	CHECK(pool_valid(pool), CUDA_ERROR_INVALID_VALUE);
	pthread_mutex_lock(&memory_lock);
	uint64_t least = pool->used > keep ? pool->used : keep;
	least = (least + POOL_GRAIN - 1) / POOL_GRAIN * POOL_GRAIN;
	if (least < pool->reserved)
		pool->reserved = least;
	pthread_mutex_unlock(&memory_lock);
	RETURN(CUDA_SUCCESS);
}

/* The figure behind an attribute; NULL: it is none of the 64-bit ones. */
static uint64_t *pool_figure(struct CUmemPoolHandle_st *pool, CUmemPool_attribute attribute)
{
	switch ((int)attribute) {
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		return &pool->threshold;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
		return &pool->reserved;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		return &pool->reserved_high;
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		return &pool->used;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		return &pool->used_high;
	default:
		return NULL;
	}
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
	CALL(cuMemPoolGetAttribute, );
	CHECK(pool_valid(pool) && value, CUDA_ERROR_INVALID_VALUE);
	uint64_t *figure = pool_figure(pool, attribute);
	if (!figure) {
		*(int *)value = 1;
		RETURN(CUDA_SUCCESS);
	}
	pthread_mutex_lock(&memory_lock);
	memcpy(value, figure, sizeof *figure);
	pthread_mutex_unlock(&memory_lock);
	RETURN(CUDA_SUCCESS);
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
	CALL(cuMemPoolSetAttribute, );
	CHECK(pool_valid(pool) && value, CUDA_ERROR_INVALID_VALUE);
	uint64_t *figure = pool_figure(pool, attribute);
	pthread_mutex_lock(&memory_lock);
	if (figure)
		memcpy(figure, value, sizeof *figure);
	pthread_mutex_unlock(&memory_lock);
	RETURN(CUDA_SUCCESS);
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *access, size_t count)
{
	CALL(cuMemPoolSetAccess, );
	(void)access, (void)count;
	RETURN(pool_valid(pool) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
	CALL(cuDeviceGetDefaultMemPool, );
	CHECK(device_of(device), CUDA_ERROR_INVALID_DEVICE);
	*pool = device_of(device)->default_pool;
	RETURN(CUDA_SUCCESS);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
	CALL(cuDeviceGetMemPool, );
	CHECK(device_of(device), CUDA_ERROR_INVALID_DEVICE);
	*pool = device_of(device)->pool;
	RETURN(CUDA_SUCCESS);
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
	CALL(cuDeviceSetMemPool, );
	CHECK(device_of(device), CUDA_ERROR_INVALID_DEVICE);
	CHECK(pool_valid(pool), CUDA_ERROR_INVALID_VALUE);
	device_of(device)->pool = pool;
	RETURN(CUDA_SUCCESS);
}

/* ---- memory that is mapped into addresses which were reserved for it, as by torch's expandable segments. What is mapped where is not
 * kept: each mapping has zeros. */

struct physical {
	size_t bytes;
	struct device *device;
};

CUresult cuMemAddressReserve(CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr wanted,
			     unsigned long long flags)
{
	CALL(cuMemAddressReserve, );
	(void)alignment;
	(void)wanted;
	CHECK(address && bytes && !flags, CUDA_ERROR_INVALID_VALUE);
	*address = take(bytes, 1);
	RETURN(*address ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes)
{
	CALL(cuMemAddressFree, );
	RETURN(munmap((void *)address, bytes) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *properties,
		     unsigned long long flags)
{
	CALL(cuMemCreate, );
	CHECK(handle && bytes && properties && !flags, CUDA_ERROR_INVALID_VALUE);
	struct device *device = device_of(properties->location.id);
	struct physical *piece = device ? malloc(sizeof *piece) : NULL;
	CHECK(device, CUDA_ERROR_INVALID_DEVICE);
	CHECK(piece, CUDA_ERROR_OUT_OF_MEMORY);
	*piece = (struct physical){bytes, device};
	if (atomic_fetch_add(&device->used, bytes) + bytes > device->facts.memory) {
		atomic_fetch_sub(&device->used, bytes);
		free(piece);
		RETURN(CUDA_ERROR_OUT_OF_MEMORY);
	}
	*handle = (CUmemGenericAllocationHandle)piece;
	RETURN(CUDA_SUCCESS);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	CALL(cuMemRelease, );
	struct physical *piece = (void *)handle;
	CHECK(piece, CUDA_ERROR_INVALID_VALUE);
	atomic_fetch_sub(&piece->device->used, piece->bytes);
	free(piece);
	RETURN(CUDA_SUCCESS);
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
		  unsigned long long flags)
{
	CALL(cuMemMap, );
	CONTEXT(context);
	const struct physical *physical = (void *)handle;
	CHECK(physical && offset + bytes <= physical->bytes && !flags, CUDA_ERROR_INVALID_VALUE);
	struct allocation piece = {.address = address,
				   .bytes = bytes,
				   .kind = MEMORY_DEVICE,
				   .registered = 1,
				   .device = physical->device,
				   .context = context};
	pthread_mutex_lock(&memory_lock);
	int error = insert(&piece);
	pthread_mutex_unlock(&memory_lock);
	RETURN(error ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS);
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count)
{
	CALL(cuMemSetAccess, );
	struct allocation piece;
	(void)bytes;
	CHECK(access && count && !allocation_find(address, &piece), CUDA_ERROR_INVALID_VALUE);
	RETURN(CUDA_SUCCESS);
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes)
{
	CALL(cuMemUnmap, );
	struct allocation piece;
	CHECK(!allocation_find(address, &piece) && piece.address == address && piece.bytes == bytes,
	      CUDA_ERROR_INVALID_VALUE);
	context_drain(piece.context);
	RETURN(remove_piece(address, &piece) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
}
