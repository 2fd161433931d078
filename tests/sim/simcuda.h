/* simcuda.h - how a test program speaks to the simulated driver, beside the CUDA driver API. Every function is looked up with
 * dlsym(RTLD_DEFAULT, ...): under a real driver it is not there, and the program does without.
 *
 * By themselves, programs on the driver API need none of this: a launch takes the duration of the script, or of a kernel
 * whose name begins with "spin" its first parameter (u64, ns). What is said here is for the replay of a recorded
 * timeline, whose operations have times and names of their own, and whose calls were calls of the CUDA runtime. */
#ifndef PROFD_TESTS_SIM_SIMCUDA_H
#define PROFD_TESTS_SIM_SIMCUDA_H

#include <stdint.h>

/* What DEVICE records and cuDeviceGetName say begins with this, so that whatever came from here is told apart. The same text
 * as SIMULATED_DEVICE of proto/limits.h: two programs that must not share code with each other. */
#define SIMCUDA_DEVICE_PREFIX "Simulated "

/* The operation that the calling thread launches next (kernel, copy or set; of a graph launch: call it once a node, in
 * order) takes these values instead of its own. Fields that are 0 or NULL leave what the call says. Copied at the call. */
struct simcuda_hint {
	uint32_t bytes;			  /* sizeof, for growth */
	uint32_t device, context, stream; /* ids as records show them; stream: with has_stream */
	uint32_t has_stream;
	uint32_t correlation;
	uint64_t start, end; /* CLOCK_MONOTONIC ns; its record carries exactly these, whenever it is launched */
	const char *name;    /* of a kernel: what stands in its record (mangled or not) */
	uint32_t grid[3], block[3];
	uint32_t registers, static_shared, dynamic_shared;
	uint64_t copy_bytes;
	uint8_t copy_kind, source_kind, target_kind; /* CUpti_ActivityMemcpyKind, CUpti_ActivityMemoryKind */
	uint8_t reserved;
	uint32_t graph;
	uint64_t graph_node;
	uint64_t queued, submitted; /* 0 = not recorded */
};
typedef void simcuda_hint_fn(const struct simcuda_hint *hint); /* "simcuda_hint" */

/* Between these two the calling thread is inside a call of the CUDA runtime, `name` as in its API ("cudaLaunchKernel"): its
 * record is written at the leave with the given result, driver calls in between share its correlation id. correlation 0:
 * the next one. start/end 0: now; else CLOCK_MONOTONIC ns that the record carries. */
typedef void simcuda_runtime_enter_fn(const char *name, uint32_t correlation,
				      uint64_t start);		     /* "simcuda_runtime_enter" */
typedef void simcuda_runtime_leave_fn(int32_t result, uint64_t end); /* "simcuda_runtime_leave" */

/* How much the process itself has launched, by kind. A test compares the number of records with it. */
struct simcuda_counts {
	uint64_t kernels, copies, sets, calls_driver, calls_runtime;
};
typedef void simcuda_counts_fn(struct simcuda_counts *counts); /* "simcuda_counts" */

#endif
