/* tally.h - what a workload has done, counted by itself: kernels by name and stream, copies and sets by kind. One a thread; they
 * are added up and printed as JSON. */
#ifndef PROFD_TESTS_WORKLOADS_CUDA_TALLY_H
#define PROFD_TESTS_WORKLOADS_CUDA_TALLY_H

#include "driver.h"

enum { TALLY_STREAMS = 512 };
enum copy { HTOD, DTOH, DTOD, PTOP, COPIES };
static const char *const copy_names[COPIES] = {"HtoD", "DtoH", "DtoD", "PtoP"};

struct tally {
	uint64_t kernels[KERNELS][TALLY_STREAMS]; /* by stream_index */
	uint64_t copies[COPIES], copy_bytes[COPIES];
	uint64_t sets, set_bytes;
	uint64_t calls[CALLS];
};

/* The streams of the program: index 0 is the default stream. */
static struct {
	stream handle;
	unsigned long long id; /* as records show it; 0: the driver does not say */
} streams[TALLY_STREAMS];
static int stream_count = 1;

/* Takes a stream into the list; returns its index. */
static inline int streams_add(stream handle)
{
	if (stream_count == TALLY_STREAMS)
		fail("more streams than are counted", TALLY_STREAMS);
	streams[stream_count].handle = handle;
	if (!stream_get_id || stream_get_id(handle, &streams[stream_count].id))
		streams[stream_count].id = 0;
	return stream_count++;
}

/* All fields are uint64_t, so adding is adding word by word. */
static inline void tally_add(struct tally *to, const struct tally *from)
{
	for (size_t i = 0; i < sizeof *to / sizeof(uint64_t); i++)
		((uint64_t *)to)[i] += ((const uint64_t *)from)[i];
}

static inline uint64_t tally_kernels(const struct tally *t)
{
	uint64_t n = 0;
	for (int k = 0; k < KERNELS; k++)
		for (int s = 0; s < TALLY_STREAMS; s++)
			n += t->kernels[k][s];
	return n;
}

/* "kernels": N, "copies": {KIND: {"count", "bytes"}}, "sets": {"count", "bytes"} */
static inline void tally_print_counts(const struct tally *t)
{
	printf("\"kernels\": %llu, \"copies\": {", (unsigned long long)tally_kernels(t));
	for (int c = 0, n = 0; c < COPIES; c++)
		if (t->copies[c])
			printf("%s\"%s\": {\"count\": %llu, \"bytes\": %llu}", n++ ? ", " : "", copy_names[c],
			       (unsigned long long)t->copies[c], (unsigned long long)t->copy_bytes[c]);
	printf("}, \"sets\": {\"count\": %llu, \"bytes\": %llu}", (unsigned long long)t->sets,
	       (unsigned long long)t->set_bytes);
}

/* "by_name": {NAME: {INDEX OF STREAM: N}}, "stream_ids": [...], "calls": {NAME: N}: by TRY and DO, so without cuStreamGetId */
static inline void tally_print_details(const struct tally *t)
{
	printf("\"by_name\": {");
	for (int k = 0, n = 0; k < KERNELS; k++) {
		int m = 0;
		for (int s = 0; s < stream_count; s++) {
			if (!t->kernels[k][s])
				continue;
			if (!m)
				printf("%s\"%s\": {", n++ ? ", " : "", kernel_names[k]);
			printf("%s\"%d\": %llu", m++ ? ", " : "", s, (unsigned long long)t->kernels[k][s]);
		}
		if (m)
			printf("}");
	}
	printf("}, \"stream_ids\": [");
	for (int s = 0; s < stream_count; s++)
		printf("%s%llu", s ? ", " : "", streams[s].id);
	printf("], \"calls\": {");
	for (int c = 0, n = 0; c < CALLS; c++)
		if (t->calls[c])
			printf("%s\"%s\": %llu", n++ ? ", " : "", call_names[c], (unsigned long long)t->calls[c]);
	printf("}");
}

#endif
