/* libc10_cuda.c - a stand-in for torch's library of that name, where there is no GPU: it tells libc10 of each block as the allocator of a
 * GPU does, through a slot of its own, and keeps what it has given out and holds of each device. What a GPU does is not played: blocks
 * are memory of the host, and a stream is a number. link: libc10 */
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#define DEVICES 8
#define CUDA 1		     /* c10::DeviceType */
#define SEGMENT (2ull << 20) /* the allocator takes so much at a time from the driver */

struct device {
	_Atomic uint64_t allocated, reserved;
};
struct block {
	uint64_t bytes;
	int device, stream;
	unsigned char memory[];
};

extern void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void *block, int64_t bytes, uint64_t total,
								  uint64_t reserved, uint16_t device);
void cuda_tell(void *block, int64_t bytes, int device);
void *cuda_take(uint64_t bytes, int device, int stream);
void cuda_give_back(void *memory);
uint64_t cuda_allocated(int device);
uint64_t cuda_reserved(int device);
void *cuda_own_function(void *next);

static struct device devices[DEVICES];
static void (*next_function)(void *, int64_t, uint64_t, uint64_t, uint16_t);

/* Negative: given back. */
void cuda_tell(void *block, int64_t bytes, int device)
{
	struct device *d = &devices[device];
	uint64_t allocated = atomic_fetch_add(&d->allocated, (uint64_t)bytes) + (uint64_t)bytes;
	uint64_t reserved = atomic_load(&d->reserved);
	while (allocated > reserved &&
	       !atomic_compare_exchange_weak(&d->reserved, &reserved, (allocated + SEGMENT - 1) / SEGMENT * SEGMENT))
		;
	_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(block, bytes, allocated, atomic_load(&d->reserved),
							      (uint16_t)(device << 8 | CUDA));
}

/* As torch's: in blocks of 512 bytes. */
void *cuda_take(uint64_t bytes, int device, int stream)
{
	bytes = (bytes + 511) / 512 * 512;
	struct block *block = malloc(sizeof *block + bytes);
	if (!block)
		return NULL;
	*block = (struct block){.bytes = bytes, .device = device, .stream = stream};
	cuda_tell(block->memory, (int64_t)bytes, device);
	return block->memory;
}

void cuda_give_back(void *memory)
{
	struct block *block = (struct block *)(void *)((unsigned char *)memory - sizeof *block);
	cuda_tell(memory, -(int64_t)block->bytes, block->device);
	free(block);
}

uint64_t cuda_allocated(int device)
{
	return atomic_load(&devices[device].allocated);
}

uint64_t cuda_reserved(int device)
{
	return atomic_load(&devices[device].reserved);
}

static void own_function(void *block, int64_t bytes, uint64_t total, uint64_t reserved, uint16_t device)
{
	next_function(block, bytes, total, reserved, device);
}

/* For a tool that puts a function of this very library into its slot: one that calls `next`. */
void *cuda_own_function(void *next)
{
	*(void **)&next_function = next;
	return (void *)(uintptr_t)own_function;
}
