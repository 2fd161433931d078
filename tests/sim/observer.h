/* observer.h - what the simulated driver tells the simulated CUPTI of its release. libcupti.so.N finds simcuda_observe in the
 * libcuda.so.1 that is mapped; without it (or before cuInit) its calls answer as the real one's do without a driver. All
 * times are CLOCK_MONOTONIC ns; CUPTI turns them into its own clock. Functions are called without any lock of the driver
 * held, on the thread that each comment names. */
#ifndef PROFD_TESTS_SIM_OBSERVER_H
#define PROFD_TESTS_SIM_OBSERVER_H

#include <stdint.h>

enum sim_domain { SIM_DRIVER = 1, SIM_RUNTIME = 2 };

struct sim_call {
	uint32_t domain; /* enum sim_domain */
	uint32_t correlation;
	const char *name; /* "cuLaunchKernel", "cudaLaunchKernel": of the API, without a version suffix; static */
	uint64_t start, end;
	uint64_t pthread;
	uint32_t tid, pid;
	uint32_t context; /* id; 0 = none */
	int32_t result;
	const char *
		symbol; /* as exported, "cuMemAlloc_v2", "cuLaunchKernel_ptsz" (so cbids are named); of the runtime: name */
};

enum sim_operation_kind {
	SIM_KERNEL = 1,
	SIM_COPY,
	SIM_PEER_COPY,
	SIM_SET,
	SIM_SYNC,  /* context, stream or event synchronise, stream wait event: host-side */
	SIM_EVENT, /* an event recorded into a stream */
};

struct sim_operation {
	uint32_t kind; /* enum sim_operation_kind */
	uint32_t correlation;
	uint32_t device, context, stream;
	uint32_t target_device, target_context; /* peer copies: where to; `device` is where it ran */
	uint32_t source_device, source_context;
	uint64_t queued, submitted, start, end;
	const char *name; /* kernels; lives as long as the process */
	uint32_t grid[3], block[3];
	uint32_t registers, static_shared, dynamic_shared, local_per_thread;
	int32_t priority;
	uint64_t bytes;				     /* copies, sets */
	uint32_t value;				     /* sets */
	uint8_t copy_kind, source_kind, target_kind; /* CUPTI's numbers; of sets target_kind */
	uint8_t asynchronous;
	uint32_t graph; /* id of the executable graph, 0 = none */
	uint64_t graph_node;
	uint64_t graph_launch; /* unique per launch: the same for all nodes of one; 0 = none */
	uint32_t sync_type;    /* CUpti_ActivitySynchronizationType */
	uint32_t event;	       /* id */
	uint64_t id;	       /* unique per operation: joins submitted() and finished() */
};

struct sim_memory {
	uint32_t allocated; /* 1 taken, 0 given back */
	uint32_t correlation, device, context, stream;
	uint64_t address, bytes, time;
	uint32_t memory_kind; /* CUpti_ActivityMemoryKind */
	uint32_t pooled;      /* from cuMemAllocAsync: `pool` is its pool's address */
	uint64_t pool, pool_size, pool_utilized;
};

struct sim_device {
	uint32_t id;
	const char *name;
	uint8_t uuid[16];
	uint64_t memory;
	uint32_t multiprocessors, capability_major, capability_minor, warp, max_threads_block,
		max_threads_multiprocessor;
	uint32_t registers_block, registers_multiprocessor, shared_block, shared_multiprocessor;
};
struct sim_context {
	uint32_t id, device;
	uint32_t default_stream; /* id */
};
struct sim_stream {
	uint32_t id, device, context, flags;
	int32_t priority;
};
struct sim_module {
	uint32_t id, context;
	uint32_t bytes;
	const void *image;
};

/* Any may be NULL. */
struct sim_observer {
	void (*call_begin)(const struct sim_call *call);	  /* calling thread; end and result not yet set */
	void (*call_end)(const struct sim_call *call);		  /* calling thread */
	void (*submitted)(const struct sim_operation *operation); /* launching thread, before the call returns */
	void (*finished)(const struct sim_operation *operation);  /* the stream's thread; SIM_SYNC: calling thread */
	void (*memory)(const struct sim_memory *memory);	  /* calling thread */
	void (*context)(const struct sim_context *context, int created);
	void (*stream)(const struct sim_stream *stream, int created);
	void (*module)(const struct sim_module *module, int loaded);
	void (*exiting)(void);	    /* the driver is going away: exit(). A device reset ends its context, no more */
	void (*graph)(uint32_t id); /* calling thread: an executable graph has been made */
};

/* libcuda.so.1 exports, for libcupti.so.N alone: */

/* Replaces the observer (NULL: none). Returns 0, or -1 where cuInit has not run. */
typedef int simcuda_observe_fn(const struct sim_observer *observer); /* "simcuda_observe" */
/* Tells the observer's context/stream functions of all that exist, and lists devices: fn is called for each. */
typedef void simcuda_dump_fn(void (*fn)(const struct sim_device *device)); /* "simcuda_dump" */
/* Returns when all that the devices had to do at the call is done. */
typedef void simcuda_drain_fn(void); /* "simcuda_drain" */
/* What the script says of a key: its value, "" for one without a value, NULL where it is not there. Script: environment
 * variable SIMCUDA, "key=value,key,...", or "@FILE" with one a line, # comments. Both libraries read the same one. */
typedef const char *simcuda_script_fn(const char *key); /* "simcuda_script" */

#endif
