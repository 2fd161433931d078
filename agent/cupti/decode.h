/* decode.h - makes our event records (proto/events.def) from CUPTI's activity records. Runs on CUPTI's worker thread
 * for each record: without calls, locks or needless branches.
 *
 * All functions: `record` is one record at any alignment, with as many readable bytes as cupti_layout_size() gives for
 * its kind; no further byte is read. All of `out` is filled: head.size, head.kind, head.flags (EVENT_FLAG_TIMELESS
 * where the start is 0, EVENT_FLAG_UNFINISHED where there is a start but no end), head.step = 0. A field that this
 * release lacks gets the value of events.def for "not told". The caller fills in times and names, which are 0 here:
 * struct cupti_times has CUPTI's raw times, and names are pointers into CUPTI's memory, to be copied at once; NULL
 * where there is none. Return 1, or 0 where the kind's records are not to be read: then `out` is not changed. */
#ifndef PROFD_AGENT_CUPTI_DECODE_H
#define PROFD_AGENT_CUPTI_DECODE_H

#include "layout.h"

#include "../../proto/events.h"

/* Times of a record in ticks of CUPTI's clock; 0 = not told. Where the record has one time, that is `start`. The end
 * may lie before the start if CUPTI's clock was changed in between. */
struct cupti_times {
	uint64_t start, end;
	uint64_t queued, submitted; /* of kernels, where the latency timestamps were asked for */
};

/* CONCURRENT_KERNEL, KERNEL. */
int cupti_decode_kernel(const struct cupti_layout *layout, const void *record, struct event_kernel *out,
			struct cupti_times *times, const char **ret_name);
/* MEMCPY. */
int cupti_decode_copy(const struct cupti_layout *layout, const void *record, struct event_copy *out,
		      struct cupti_times *times);
/* MEMCPY2: between two devices. */
int cupti_decode_peer_copy(const struct cupti_layout *layout, const void *record, struct event_copy *out,
			   struct cupti_times *times);
/* MEMSET. */
int cupti_decode_set(const struct cupti_layout *layout, const void *record, struct event_set *out,
		     struct cupti_times *times);
/* GRAPH_TRACE. */
int cupti_decode_graph(const struct cupti_layout *layout, const void *record, struct event_graph_launch *out,
		       struct cupti_times *times);
/* RUNTIME, DRIVER, INTERNAL_LAUNCH_API (its domain is 0). out->thread is CUPTI's number of the thread: pthread_self()
 * cut to 32 bits unless cuptiSetThreadIdType() changed that; the caller turns it into a kernel tid. out->name is left
 * 0: the caller finds the name by domain and cbid. */
int cupti_decode_api(const struct cupti_layout *layout, const void *record, struct event_api_call *out,
		     struct cupti_times *times);
/* SYNCHRONIZATION. */
int cupti_decode_sync(const struct cupti_layout *layout, const void *record, struct event_sync *out,
		      struct cupti_times *times);
/* CUDA_EVENT. times->start: when the device reached it; 0, and no flag, unless device timestamps of events were asked
 * for (12.8+). */
int cupti_decode_cuda_event(const struct cupti_layout *layout, const void *record, struct event_cuda_event *out,
			    struct cupti_times *times);
/* MEMORY2. */
int cupti_decode_memory(const struct cupti_layout *layout, const void *record, struct event_allocation *out,
			struct cupti_times *times);
/* MEMORY_POOL. The pool's address is out->pool. out->bytes: for a trim the bytes that it keeps at least, else the
 * pool's size. */
int cupti_decode_pool(const struct cupti_layout *layout, const void *record, struct event_allocation *out,
		      struct cupti_times *times);
/* UNIFIED_MEMORY_COUNTER. source and target as CUPTI has them: the kind says which of the two has a meaning. */
int cupti_decode_unified_memory(const struct cupti_layout *layout, const void *record, struct event_unified_memory *out,
				struct cupti_times *times);
/* OVERHEAD. out->thread as in cupti_decode_api; 0 where the overhead does not belong to a thread. */
int cupti_decode_overhead(const struct cupti_layout *layout, const void *record, struct event_overhead *out,
			  struct cupti_times *times);
/* DEVICE. */
int cupti_decode_device(const struct cupti_layout *layout, const void *record, struct event_device *out,
			const char **ret_name);
/* CONTEXT, STREAM, MODULE. CUPTI does not tell a stream's name. */
int cupti_decode_context(const struct cupti_layout *layout, const void *record, struct event_context *out);
int cupti_decode_stream(const struct cupti_layout *layout, const void *record, struct event_stream *out);
int cupti_decode_module(const struct cupti_layout *layout, const void *record, struct event_module *out);

#endif
