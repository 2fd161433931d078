/* collector.h - a source of events: one table of functions, called by the agent's own thread only (never by a thread of
 * the job), in the order probe, arm, start, stop, drain, disarm. A collector sees the sink (sink.h) and nothing else of
 * the agent: no socket, no segment, no schedule. */
#ifndef PROFD_AGENT_CORE_COLLECTOR_H
#define PROFD_AGENT_CORE_COLLECTOR_H

#include <stddef.h>
#include <stdint.h>

struct collector_request {
	uint32_t wanted;     /* bit set of enum collector that the capture asks for */
	uint32_t generation; /* of the recording; what the sink will hand to sink_begin's callers */
	const char *
		step_range; /* glob, "" = none: the collector that sees ranges reports their ends by steps_range_end() */
	const char *step_operator;  /* glob, "" = none: the same, by steps_operator_end() */
	uint32_t options;	    /* bit set of enum arm_option */
	uint32_t stacks_rate;	    /* samples of each thread's stack in a second; 0 = the default */
	int whole_graphs;	    /* the job's environment allows CUDA graphs to be recorded as a whole */
	uint64_t boundary_patience; /* how long to wait for the next boundary at most; 0: no steps are known */
	int attached;		    /* the agent came after the process had begun (`profd attach`) */
};

struct collector_ops {
	uint32_t bit; /* enum collector; proto/collectors.def says what else it records (part_of) */

	/* The collector is switched on while the step thread stands at a boundary, if possible: start asks for that
	 * (hold.h), and releases the step thread as soon as it can. */
	int still;

	/* Can it record here, now? Makes no call into a foreign library except for looking symbols up. (NVTX after an
	 * attachment: also notes which libraries carry NVTX.) Returns 1 or 0, and in both cases a sentence for
	 * `doctor`: what it records, or why it cannot. */
	int (*probe)(char *sentence, size_t bytes);

	/* The collector can record. Can it also record those bits of `wanted` that are parts of it (part_of)? 0, or a
	 * negative errno with the reason. Touches nothing. NULL: it can. */
	int (*probe_parts)(uint32_t wanted, char *sentence, size_t bytes);

	/* Is another profiler at work in this process, as far as this collector can see without touching it? 1 with a clause
	 * that names it, or 0. May be NULL. */
	int (*others)(char *sentence, size_t bytes);

	/* Does the preparations that may take long (calibration, memory). Touches nothing of the job yet. 0, or a
	 * negative errno with the reason in `sentence`; the capture then goes on without this collector and says so. */
	int (*arm)(const struct collector_request *request, char *sentence, size_t bytes);

	/* Switches the hooks on. They may fire before the sink records (warm-up) and must then be cheap and write nothing;
	 * sink_recording() tells. 0 or a negative errno, as arm. */
	int (*start)(const struct collector_request *request, char *sentence, size_t bytes);

	/* Called from start until stop: at the time that the last call returned, and whenever the agent's thread is
	 * awake anyway. `step_thread`: the thread that steps, 0 = not known yet. Returns when it wants to be called
	 * again. Times of CLOCK_MONOTONIC in ns. May be NULL. */
	uint64_t (*poll)(uint64_t now, uint32_t step_thread);

	/* Before stop: 1 with a sentence about this recording, which replaces that of start; else 0. May be NULL. */
	int (*note)(char *sentence, size_t bytes);

	/* Switches the hooks off. A foreign library may still hold pointers, and report through them that an open range
	 * or operator ends. */
	void (*stop)(void);

	/* Writes the events that are still inside a foreign library, without synchronising anything, before the
	 * deadline (CLOCK_MONOTONIC ns). May be NULL. */
	void (*drain)(uint64_t deadline);

	/* How many bytes of the job's memory it held for the capture at most, without the sink's. Asked before disarm.
	 * May be NULL. */
	uint64_t (*bytes)(void);

	/* Gives back what arm took, except for memory to which a foreign library may still hold a pointer. */
	void (*disarm)(void);
};

/* Each row of the table with OPS has one, defined in the collector's folder. */
#define NO_OPS
#define OPS(name) extern const struct collector_ops collector_##name;
#define COLLECTOR(bit, NAME, word, part_of, ops, asked, option, help, fills, records) ops
#include "proto/collectors.def"
#undef OPS
#undef NO_OPS

#endif
