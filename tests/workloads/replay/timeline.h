/* timeline.h - a timeline file in memory. The format is described in tests/replay/timeline.py. Read once, then only
 * read: no locks. */
#ifndef PROFD_TESTS_REPLAY_TIMELINE_H
#define PROFD_TESTS_REPLAY_TIMELINE_H

#include <stddef.h>
#include <stdint.h>

struct operation {
	char kind;	 /* 'k', 'm' or 'z' */
	uint8_t is_node; /* of a CUDA graph */
	uint8_t is_peer;
	uint8_t copy_kind, source_kind, target_kind; /* CUPTI's numbers; of sets target_kind */
	uint32_t name, stream;			     /* indices of strings and streams */
	uint32_t grid[3], block[3], registers, static_shared, dynamic_shared;
	uint32_t graph, source_device, target_device;
	uint64_t graph_node;
	uint64_t start, duration, queued; /* ns from the file's begin; queued 0 = not known */
	uint64_t bytes;
};

struct item {
	char kind; /* as the line begins: + o - i = c d */
	int32_t result;
	uint32_t name;	     /* '=': the ordinal of the step that ends */
	uint64_t start, end; /* ns from the file's begin */
	size_t first, count; /* operations that the call launched */
};

struct thread {
	uint32_t recorded_id;
	char *name;
	struct item *items;
	size_t count;
};

struct stream {
	uint32_t device, context, id;
};

struct step {
	uint64_t end;
	long number;
	char *name;
};

/* A span of time in which some device worked, and how much of it there was before. */
struct busy {
	uint64_t start, end, before;
};

struct timeline {
	char **strings; /* [0] is "" */
	struct thread *threads;
	struct stream *streams; /* [0] is unused, as in the file */
	struct step *steps;
	struct operation *operations;
	struct busy *busy;
	size_t string_count, thread_count, stream_count, step_count, operation_count, busy_count;
	uint32_t stepper; /* index of a thread */
	uint64_t end;	  /* when everything is over */
};

/* Reads the file; ends the program with a sentence where it is none. */
void timeline_read(struct timeline *timeline, const char *path);

/* The time of the replay, ns from its begin, at which the file's `time` comes: what passes while no device works passes
 * `speed` times as fast, what passes while one does passes as it did. */
uint64_t timeline_warp(const struct timeline *timeline, uint64_t time, double speed);

/* Ends the program. */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
