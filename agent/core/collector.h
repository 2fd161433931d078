/* collector.h - what a source of events is to the agent: one vtable, called by the agent's own thread only (never by a
 * thread of the job), in the order probe, arm, start, stop, drain, disarm. A collector sees the sink (sink.h) and nothing
 * else of the agent: no socket, no segment, no schedule. */
#ifndef PROFD_AGENT_CORE_COLLECTOR_H
#define PROFD_AGENT_CORE_COLLECTOR_H

#include <stddef.h>
#include <stdint.h>

struct collector_request {
	uint32_t wanted;     /* bit set of enum collector that the capture asks for */
	uint32_t generation; /* of the recording; what the sink will hand to sink_begin's callers */
	const char *
		step_range; /* glob, "" = none: the collector that sees ranges reports their ends by steps_range_end() */
	const char *step_operator;  /* glob, "" = none: likewise, by steps_operator_end() */
	uint32_t options;	    /* bit set of enum arm_option */
	uint32_t stacks_rate;	    /* samples of each thread's stack in a second; 0 = as is usual */
	int whole_graphs;	    /* the job's environment allows CUDA graphs to be recorded as a whole */
	uint64_t boundary_patience; /* how long it is worth to wait for the next boundary; 0: no steps are known */
	int attached;		    /* the agent came after the process had begun (`profd attach`) */
};

struct collector_ops {
	uint32_t bit; /* enum collector; what it records besides is said in proto/collectors.def (part_of) */

	/* It is to be switched on while the step thread stands at a boundary, where that can be had: start looks whether it does, asks
	 * for it (hold.h), and lets it go as soon as it may. */
	int still;

	/* Can it record here, now? Touches nothing: no call into a foreign library beyond looking symbols up
	 * (NVTX after an attachment: takes in what carries it, so that it is known). Returns 1 or
	 * 0 and in either case a sentence for `doctor` (what it records, or why it cannot). */
	int (*probe)(char *sentence, size_t bytes);

	/* It can record. Are those bits of `wanted` that are no collectors of their own (part_of) possible here, too? 0, or a negative errno
	 * with the reason; touches nothing. NULL: they are. */
	int (*probe_parts)(uint32_t wanted, char *sentence, size_t bytes);

	/* Is another profiler at work in this process, as far as this collector can see without touching it? 1 with a clause
	 * that names it, or 0. May be NULL. */
	int (*others)(char *sentence, size_t bytes);

	/* Makes ready what may take long (calibration, memory); nothing of the job is touched yet. 0, or a negative errno
	 * with the reason in `sentence`; the capture then goes on without this collector and says so. */
	int (*arm)(const struct collector_request *request, char *sentence, size_t bytes);

	/* Switches the hooks on. They may fire before the sink records (warm-up) and must then be cheap and write nothing;
	 * sink_recording() tells. 0 or a negative errno, as arm. */
	int (*start)(const struct collector_request *request, char *sentence, size_t bytes);

	/* Called from start until stop: when it wants to be, and whenever the agent's thread is awake anyway. `step_thread`: the
	 * thread that steps, 0 = not known yet. Returns when it wants to be called again. Times of CLOCK_MONOTONIC in ns. May be
	 * NULL. */
	uint64_t (*poll)(uint64_t now, uint32_t step_thread);

	/* Before stop: 1 with what has to be said of this recording, instead of what start said; else 0. May be NULL. */
	int (*note)(char *sentence, size_t bytes);

	/* Switches the hooks off. Ends of what is open may still come through pointers that a foreign library holds. */
	void (*stop)(void);

	/* Reports what is still pending inside a foreign library, without synchronising anything, before the deadline
	 * (CLOCK_MONOTONIC ns). May be NULL. */
	void (*drain)(uint64_t deadline);

	/* Most bytes of the job's memory that it holds for the capture, the sink's apart; asked before disarm. May be NULL. */
	uint64_t (*bytes)(void);

	/* Gives back what arm took, as far as no foreign pointer leads there. */
	void (*disarm)(void);
};

/* One for each row of the table that has its own, in the collector's folder. */
#define NO_OPS
#define OPS(name) extern const struct collector_ops collector_##name;
#define COLLECTOR(bit, NAME, word, part_of, ops, asked, option, help, fills, records) ops
#include "proto/collectors.def"
#undef OPS
#undef NO_OPS

#endif
