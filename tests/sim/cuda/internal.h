/* internal.h - what the files of the simulated driver share. start here: state.c (how a call begins and ends), stream.c (how
 * work is done), then the API by its own chapters: device.c context.c module.c launch.c memory.c copy.c event.c capture.c
 * graph.c entry.c.
 *
 * Locks: `work_lock` guards streams, queues and events; `memory_lock` (memory.c) allocations; `object_lock` (context.c)
 * contexts, modules and the lists they are in; graph_lock (graph.c) graphs and captures. Order: graph, object, memory, work;
 * none is held while the observer or the program is called. */
#ifndef PROFD_TESTS_SIM_CUDA_INTERNAL_H
#define PROFD_TESTS_SIM_CUDA_INTERNAL_H

#define __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_PUSH_VISIBILITY_DEFAULT
#include <cuda.h>

#include "tests/sim/observer.h"
#include "tests/sim/script.h"
#include "tests/sim/simcuda.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
	DEVICES_MAX = 16,
	STREAM_PENDING_MAX = 1024, /* as much as a stream takes before a launch blocks */
	DEFAULT_STREAM_ID = 7,
	FIRST_STREAM_ID = 13,
	NAME_MAX_LENGTH = 4096,
	FUNCTION_REGISTERS = 32,
};

#define EXPORT __attribute__((visibility("default")))

/* ---- state.c: calls */

/* One call of the API, on its thread's stack. */
struct scope {
	const struct sim_observer *observer; /* as it was at the begin; NULL: nobody watches */
	struct sim_call call;
	CUresult result;
	uint32_t correlation;
	uint8_t entered;
	uint8_t per_thread; /* called by its _ptsz or _ptds name: stream 0 is the thread's own */
};

/* Begins a call: its result is CUDA_SUCCESS. Returns nonzero where the call must end at once with scope->result. */
int scope_enter(struct scope *scope, const char *name, const char *symbol);
void scope_leave(struct scope *scope);

/* The head of every API function, and its only way out: what stands after `=` last is reported and returned. */
#define CALL(name, suffix)                                                                                             \
	struct scope scope __attribute__((cleanup(scope_leave)));                                                      \
	if (scope_enter(&scope, #name, #name #suffix))                                                                 \
	return scope.result
#define RETURN(value) return scope.result = (value)
#define CHECK(condition, error)                                                                                        \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			RETURN(error);                                                                                 \
	} while (0)
#define CONTEXT(variable)                                                                                              \
	struct CUctx_st *variable = current_context();                                                                 \
	CHECK(variable, CUDA_ERROR_INVALID_CONTEXT)

/* What the next call of this thread is known by; set by the _ptsz and _ptds entries (entry.c). */
void scope_per_thread(const char *symbol);

const struct sim_observer *observer(void); /* NULL: nobody watches */
uint64_t now(void);			   /* CLOCK_MONOTONIC ns */
uint32_t next_correlation(void);
uint64_t next_id(void); /* of operations and graph launches */
/* Counts one launch. Returns nonzero where the script says that the driver has failed for good. */
int count_launch(void);
/* Counts one operation of this kind (enum sim_operation_kind) for simcuda_counts. */
void count_operation(uint32_t kind);
/* Takes this thread's next hint into *hint; 0 where there is none. */
int take_hint(struct simcuda_hint *hint);
int driver_version(void); /* 12040 */
/* Nonzero in the process that called cuInit, until it exits; in its children 0. */
int driver_live(void);
/* From now on every call answers CUDA_ERROR_LAUNCH_FAILED. */
void driver_fail(void);

/* ---- device.c */

struct device {
	struct sim_device facts;
	struct CUctx_st *primary;
	uint32_t primary_references, primary_flags;
	atomic_uint_fast64_t used; /* bytes */
	struct CUmemPoolHandle_st *default_pool, *pool;
};

extern struct device devices[DEVICES_MAX];
extern unsigned device_count;
void devices_init(void);
struct device *device_of(CUdevice device); /* NULL where there is none */

/* ---- context.c */

struct CUctx_st {
	uint32_t id;
	struct device *device;
	unsigned flags;
	int primary, alive;
	uint32_t next_stream;
	struct CUstream_st *legacy;
	struct CUstream_st *streams; /* all that were ever made, by ->sibling; guarded by work_lock */
	struct CUctx_st *next;
};

extern pthread_mutex_t object_lock;
struct CUctx_st *current_context(void); /* NULL where there is none, or it is gone */
int context_valid(const struct CUctx_st *context);
void contexts_dump(void);
void contexts_drain(void);

/* ---- stream.c: streams, and the work they do */

enum action {
	ACTION_NONE, /* kernels, markers */
	ACTION_COPY,
	ACTION_SET,
	ACTION_HOST,
	ACTION_FREE,
};

/* What is to be done, apart from when and where: a node of a graph, or, once submitted, an operation. record.kind 0: nothing
 * that a device would show (host functions, waits, frees). */
struct work {
	struct sim_operation record;
	uint64_t duration;
	int traps; /* a kernel that ends the driver: every call fails from its end on */
	enum action action;
	union {
		struct {
			char *target;
			const char *source;
			size_t target_pitch, source_pitch, width, height;
			void *staged; /* to be freed afterwards */
		} copy;
		struct {
			char *target;
			size_t pitch, width, height; /* width in elements */
			unsigned size;
		} set;
		struct {
			CUhostFn function;
			void *data;
			CUstreamCallback callback; /* instead of function */
		} host;
		CUdeviceptr free;
	};
	struct CUevent_st *event; /* to be recorded */
	struct CUevent_st *after; /* to be waited for */
};

struct dependency {
	struct CUstream_st *stream;
	uint64_t sequence;
};

struct operation {
	struct operation *next;
	struct work work;
	struct CUstream_st *stream;
	uint64_t sequence, earliest;
	unsigned dependency_count;
	struct dependency dependencies[];
};

/* Never freed: who waits may hold it when it is destroyed. */
struct CUstream_st {
	uint32_t magic;
	uint32_t id;
	struct CUctx_st *context;
	unsigned flags;
	int priority;
	int blocking, destroyed, started, idle;
	struct operation *head, **tail;
	uint64_t submitted, finished; /* sequences */
	uint64_t last_end, hinted_latest;
	uint32_t hinted_pending;
	pthread_cond_t wake, done;
	struct capture *capture;	    /* guarded by graph_lock */
	struct CUgraphNode_st **tail_nodes; /* of the capture: what the next node depends on */
	size_t tail_count;
	struct CUstream_st *sibling;
};

extern pthread_mutex_t work_lock;
struct CUstream_st *stream_create(struct CUctx_st *context, unsigned flags, int priority, uint32_t id);
void stream_destroy(struct CUstream_st *stream);
/* Tells the observer; context.c. */
void stream_tell(const struct CUstream_st *stream, int created);
/* The stream behind a handle in the current context: NULL and the special ones too. NULL where it is none. */
struct CUstream_st *stream_of(const struct scope *scope, CUstream stream);
/* Submits, or captures; blocks while the stream is full. */
CUresult submit(struct scope *scope, struct CUstream_st *stream, const struct work *work);
/* As submit, for a node of a graph: never captured, not counted as a launch against the script's fatal=. */
CUresult submit_node(struct scope *scope, struct CUstream_st *stream, const struct work *work);
/* Waits until all that was submitted before is finished. */
void stream_drain(struct CUstream_st *stream);
void context_drain(struct CUctx_st *context);
int stream_busy(struct CUstream_st *stream);
/* Starts a thread of a device: detached, without signals. 0, negative errno. It calls device_thread_named() first. */
int device_thread(void *(*run)(void *), void *argument);
void device_thread_named(void);
enum { SYNC_EVENT = 1, SYNC_WAIT_EVENT, SYNC_STREAM, SYNC_CONTEXT }; /* CUpti_ActivitySynchronizationType */
/* Writes the record of a wait of the host: from `start` until now. */
void report_sync(struct scope *scope, uint32_t type, uint64_t start, struct CUctx_st *context, uint32_t stream,
		 uint32_t event);

/* hinted.c: operations whose times are known beforehand */
void hinted_submit(struct operation *operation);
/* Does the data's part of an operation, tells the observer, frees. Of both kinds of executor; no lock held. */
void operation_act(struct operation *operation);
void operation_report(struct operation *operation);

/* ---- event.c. Never freed, but recycled. */

struct CUevent_st {
	uint32_t magic;
	uint32_t id;
	struct CUctx_st *context;
	unsigned flags;
	struct CUstream_st *stream; /* recorded into; NULL: never */
	uint64_t sequence;
	uint64_t time;			       /* 0 until finished */
	struct capture *capture;	       /* recorded into a capturing stream */
	struct CUgraphNode_st **capture_nodes; /* and what was before it there */
	size_t capture_count;
	struct CUevent_st *next_free;
};

/* ---- module.c */

struct CUfunc_st {
	const char *name; /* as in the image */
	struct CUmod_st *module;
	struct CUfunc_st *next, *next_known;
	int parameter_count; /* -1: not known */
	size_t parameters[32];
	uint64_t duration; /* of a launch; UINT64_MAX: its first parameter */
	int traps;
	atomic_int dynamic_shared_max;
};

/* The function behind a CUfunction, or a CUkernel given as one. NULL where it is none. */
struct CUfunc_st *function_of(CUfunction function);
void modules_unload(struct CUctx_st *context);
/* A whole file, zero-terminated; a module that is loaded from it keeps pointing at it. NULL: it cannot be read. */
char *image_read(const char *path);

/* ---- memory.c */

struct allocation {
	uint64_t address, bytes;
	uint8_t kind; /* CUpti_ActivityMemoryKind */
	uint8_t registered, mapped;
	struct device *device;
	struct CUctx_st *context;
	struct CUmemPoolHandle_st *pool;
};

enum { MEMORY_PAGEABLE = 1, MEMORY_PINNED = 2, MEMORY_DEVICE = 3, MEMORY_MANAGED = 5 };

/* What lies at an address: 0, or -1 where it is memory that the driver has not made. */
int allocation_find(uint64_t address, struct allocation *found);
/* MEMORY_PAGEABLE where it is unknown. */
uint8_t memory_kind(const void *address);
/* Gives device memory back. Returns an error where it was none. */
CUresult allocation_free(uint64_t address);
CUresult allocate(struct scope *scope, struct CUctx_st *context, size_t bytes, uint8_t kind,
		  struct CUmemPoolHandle_st *pool, uint32_t stream, uint64_t *address);
void pools_init(struct device *device);
void memory_reset(struct CUctx_st *context);

/* ---- copy.c: what graph.c needs to make nodes */

enum { COPY_HTOD = 1, COPY_DTOH = 2, COPY_DTOD = 8, COPY_HTOH = 9, COPY_PTOP = 10 }; /* CUpti_ActivityMemcpyKind */
CUresult copy_work(struct work *work, const CUDA_MEMCPY3D *copy, int asynchronous);
void set_work(struct work *work, CUdeviceptr target, size_t pitch, uint32_t value, unsigned size, size_t width,
	      size_t height, int asynchronous);
/* launch.c: reads the parameters. */
CUresult kernel_work(struct work *work, CUfunction function, const unsigned grid[3], const unsigned block[3],
		     unsigned shared, void **parameters, void **extra);

/* ---- capture.c and graph.c */

extern pthread_mutex_t graph_lock;
/* Adds the work to the graph that the stream is captured into: CUDA_SUCCESS. CUDA_ERROR_NOT_READY: it is not captured. */
CUresult capture_add(struct CUstream_st *stream, const struct work *work);
CUresult capture_event(struct CUstream_st *stream, struct CUevent_st *event);
/* A stream waits for an event that was captured: CUDA_ERROR_NOT_READY where neither is. */
CUresult capture_wait(struct CUstream_st *stream, struct CUevent_st *event);
int stream_capturing(struct CUstream_st *stream);

struct CUgraphNode_st {
	uint64_t id;
	CUgraphNodeType type;
	struct work work;
	struct CUgraph_st *graph, *child;
	struct CUgraphNode_st **dependencies;
	size_t dependency_count;
	struct CUgraphNode_st *next, *copied; /* copied: to where, while its graph is */
	int placed;			      /* while its graph is put in order */
	union node_parameters {
		CUDA_KERNEL_NODE_PARAMS kernel;
		CUDA_MEMCPY3D copy;
		CUDA_MEMSET_NODE_PARAMS set;
		CUDA_HOST_NODE_PARAMS host;
	} parameters;
};

struct CUgraph_st {
	uint32_t id;
	struct CUgraphNode_st *first, **last;
	size_t count;
};

struct CUgraph_st *graph_new(void);
void graph_free(struct CUgraph_st *graph);
/* graph_lock held. NULL: out of memory. */
struct CUgraphNode_st *graph_add(struct CUgraph_st *graph, CUgraphNodeType type, const struct work *work,
				 struct CUgraphNode_st *const *dependencies, size_t count);

/* ---- entry.c */

/* The function of this name, as exported; NULL where there is none. */
void *entry_find(const char *symbol);

#endif
