/* kineto.h - reads a trace as torch.profiler (Kineto) writes it: Chrome's trace JSON, plain or compressed, event by event. Memory is
 * bounded by the largest event. Knows what the fields are called; what they become is records.c's matter. */
#ifndef PROFD_CLIENT_IMPORT_KINETO_H
#define PROFD_CLIENT_IMPORT_KINETO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What an event is, by its category and phase; torch before 1.12 had other words for some. */
enum kineto_kind {
	KINETO_NONE, /* is of no use here: flows, sorting hints, what the GPU's tracks repeat of the host's */
	KINETO_OPERATOR,
	KINETO_ANNOTATION,
	KINETO_PYTHON,
	KINETO_RUNTIME,
	KINETO_DRIVER,
	KINETO_KERNEL,
	KINETO_COPY,
	KINETO_SET,
	KINETO_SYNC,
	KINETO_OVERHEAD,
	KINETO_MEMORY,
	KINETO_GARBAGE, /* Python's collector of garbage ran */
	KINETO_PROCESS_NAME,
	KINETO_THREAD_NAME,
	KINETO_WINDOW,	/* from when to when it was recorded */
	KINETO_SAMPLES, /* some samples of stacks, as Chrome's own profiler and our exports have them */
	KINETO_STRANGE	/* something that later releases may write */
};

/* As torch calls it, among the calls of Python (record_python_gc_info; torch 2.15 has it, 2.8 does not). */
#define KINETO_GARBAGE_NAME "Python GC"

/* A text in the event's own memory; valid until the next event. NUL-terminated. */
struct kineto_text {
	const char *text; /* NULL: there is none */
	size_t n;
};

/* What torch says of an operation of several processes. Numbers: -1 = there is none. */
struct kineto_collective {
	struct kineto_text name, group, description, dtype;
	struct kineto_text ranks, in_split, out_split; /* "[0, 1]" */
	int64_t in_elements, out_elements, group_size, rank, sequence, asynchronous;
};

struct kineto_event {
	enum kineto_kind kind;
	struct kineto_text name, label; /* label: args.name, of the process or thread */
	bool timed;			/* ts and dur are times that can be */
	int64_t start, duration;	/* ns of the trace's own clock */
	int64_t pid, thread;		/* -1 = a word that is no number */
	int64_t correlation, device, context, stream, bytes, sequence, forward_thread, cbid; /* -1 = there is none */
	int64_t registers, shared, graph, graph_node, address, allocated, reserved, device_type, priority, waits_for,
		event;
	int64_t grid[3], block[3];
	struct kineto_text from;			   /* file:line of the call, of a function of Python */
	struct kineto_text dims, types, strides, concrete; /* JSON */
	struct kineto_collective collective;
};

struct kineto_device {
	struct kineto_text name;
	int64_t id, memory, major, minor, warp, multiprocessors, threads_block, threads_multiprocessor, registers_block,
		registers_multiprocessor, shared_block, shared_multiprocessor;
};

/* What stands beside the events. Numbers: -1 = there is none. */
struct kineto_about {
	int64_t base; /* ns that the events' times are counted from */
	int64_t rank, world_size;
	int64_t driver, cupti, runtime; /* versions of CUDA */
	char host[64], torch[32];
	char *distributed; /* distributedInfo as JSON; NULL = there is none. The caller frees it */
};

struct kineto_reader {
	void *context;
	const char *path; /* what the file is called, for sentences; NULL or "-": it has no name */
	/* false ends the reading. */
	bool (*event)(void *context, const struct kineto_event *event);
	bool (*device)(void *context, const struct kineto_device *device);
	/* Bytes of the file that have been read, of how many; now and then. */
	void (*progress)(void *context, uint64_t done, uint64_t whole);
};

enum kineto_result { KINETO_OK, KINETO_STOPPED, KINETO_BAD };

#define KINETO_SENTENCE_BYTES 512

/* Reads the file behind the descriptor, which stays open. BAD: `sentence` says what is wrong, and at which byte of the JSON. about is
 * filled in any case. */
enum kineto_result kineto_read(int fd, const struct kineto_reader *reader, struct kineto_about *about,
			       char sentence[KINETO_SENTENCE_BYTES]);

#endif
