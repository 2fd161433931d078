/* libc10.c - beside libtorch_cpu.c: what torch keeps in its other library. Its allocator tells of each block as torch's does, by functions
 * that are called through slots; they count what they are told. The blocks are addresses alone where a test brings them itself. */
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

extern const long _ZN3c1019UndefinedTensorImpl10_singletonE;
const long _ZN3c1019UndefinedTensorImpl10_singletonE = 0;

void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void *block, int64_t bytes, uint64_t total,
							   uint64_t reserved, uint16_t device);
void _ZN3c1025ProfiledCPUMemoryReporter3NewEPvm(void *reporter, void *block, uint64_t bytes);
void _ZN3c1025ProfiledCPUMemoryReporter6DeleteEPv(void *reporter, void *block);
uint64_t c10_told(void);
void cpu_tell(void *block, uint64_t bytes);
void *cpu_take(uint64_t bytes);
void cpu_give_back(void *block);

static _Atomic uint64_t told;
static _Atomic int profiled; /* nobody sets it: then torch's reporter tells torch's profiler */

/* How often the functions were called. */
uint64_t c10_told(void)
{
	return atomic_load(&told);
}

__attribute__((noinline)) void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void *block, int64_t bytes,
										     uint64_t total, uint64_t reserved,
										     uint16_t device)
{
	(void)block, (void)bytes, (void)total, (void)reserved, (void)device;
	atomic_fetch_add(&told, 1);
}

__attribute__((noinline)) void _ZN3c1025ProfiledCPUMemoryReporter3NewEPvm(void *reporter, void *block, uint64_t bytes)
{
	(void)reporter;
	if (atomic_load(&profiled))
		_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(block, (int64_t)bytes, 0, 0, 0xff00);
	atomic_fetch_add(&told, 1);
}

__attribute__((noinline)) void _ZN3c1025ProfiledCPUMemoryReporter6DeleteEPv(void *reporter, void *block)
{
	(void)reporter, (void)block;
	atomic_fetch_add(&told, 1);
}

/* 0 bytes: it is given back. */
void cpu_tell(void *block, uint64_t bytes)
{
	static long reporter;
	if (bytes)
		_ZN3c1025ProfiledCPUMemoryReporter3NewEPvm(&reporter, block, bytes);
	else
		_ZN3c1025ProfiledCPUMemoryReporter6DeleteEPv(&reporter, block);
}

void *cpu_take(uint64_t bytes)
{
	void *block = malloc(bytes);
	cpu_tell(block, bytes);
	return block;
}

void cpu_give_back(void *block)
{
	cpu_tell(block, 0);
	free(block);
}
