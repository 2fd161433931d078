/* chrome.h - the Chrome trace format, in the shape that Kineto (torch.profiler) gives it. See chrome.c. */
#ifndef PROFD_CLIENT_EXPORT_CHROME_H
#define PROFD_CLIENT_EXPORT_CHROME_H

#include "../reader.h"
#include "buffer.h"
#include "names.h"
#include "nesting.h"

#include <stddef.h>

struct stream;

/* An export_write. */
int chrome_write(struct reader *r, struct stream *stream, char *why, size_t why_bytes);

/* What chrome.c and chrome_head.c share. */
struct chrome_thread {
	uint32_t thread;
	uint32_t torch_id; /* 0 = not known */
	int64_t name;	   /* id; 0 = none */
	uint8_t lanes;
};

struct chrome {
	struct reader *reader;
	int64_t pid;
	int64_t origin; /* what times count from: 0, the capture's base, or what comes before it: readers drop negative times */
	struct names names;
	struct nesting nesting;
	struct chrome_thread *threads; /* by number */
	size_t thread_count;
};

/* Sibling tracks are threads with numbers that no thread has: kernels give at most 4194304. */
#define CHROME_LANE_STRIDE 10000000
static inline int64_t chrome_track(uint32_t thread, unsigned lane)
{
	return (int64_t)lane * CHROME_LANE_STRIDE + thread;
}

/* Reads the threads' names and numbers, after nesting. 0 or a negative errno. */
int chrome_threads(struct chrome *c);
const struct chrome_thread *chrome_thread(const struct chrome *c, uint32_t thread);
/* Everything before the first event: metadata, the opening of traceEvents, the tracks' names. */
void chrome_put_head(struct chrome *c, struct buffer *b);
/* What a reader of the trace must know about losses: instants over the whole trace; none where all is well. */
void chrome_put_warnings(struct chrome *c, struct buffer *b);

#endif
