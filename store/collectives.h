/* collectives.h - names of collective operations, and how their sizes and bandwidths are counted. Any thread, no
 * locks, no state. */
#ifndef PROFD_STORE_COLLECTIVES_H
#define PROFD_STORE_COLLECTIVES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The words of torch.distributed. COLLECTIVE_OTHER: torch has a name for it that is not known here. */
enum collective {
	COLLECTIVE_NONE,
	COLLECTIVE_ALL_REDUCE,
	COLLECTIVE_ALL_GATHER,
	COLLECTIVE_REDUCE_SCATTER,
	COLLECTIVE_ALL_TO_ALL,
	COLLECTIVE_BROADCAST,
	COLLECTIVE_REDUCE,
	COLLECTIVE_GATHER,
	COLLECTIVE_SCATTER,
	COLLECTIVE_BARRIER,
	COLLECTIVE_SEND,
	COLLECTIVE_RECV,
	COLLECTIVE_OTHER,
	COLLECTIVE_COUNT
};

/* "all_reduce"; "" for COLLECTIVE_NONE. */
const char *collective_word(enum collective collective);
/* Which collective operation is meant by an operator (c10d::allreduce_), by a backend's range (gloo:all_reduce,
 * nccl:all_reduce), or by torch's name for one of NCCL's (allreduce, _allgather_base). NONE: it is no collective
 * operation. */
enum collective collective_of_operator(const char *name);
enum collective collective_of_range(const char *name);
enum collective collective_of_record(const char *name);

/* Bytes as NCCL's own tests count them (nccl-tests, doc/PERFORMANCE.md; src/gather.cu and scatter.cu for these two),
 * so that bandwidths can be compared: for all_gather what each process gets, for gather what the one process gets,
 * for reduce_scatter what each puts in, for scatter what the one puts in, for recv what it gets, else what this
 * process puts in. in, out: bytes of this process; -1 = not known. `size`: processes in the group; 0 = not known. -1:
 * not known. */
int64_t collective_bytes(enum collective collective, int64_t in, int64_t out, int64_t size);
/* Bandwidth on the wires is bytes / time times this factor, as in NCCL's tests: all_reduce 2 (n - 1) / n; all_gather,
 * reduce_scatter, all_to_all, gather and scatter (n - 1) / n; others 1. 0: there is no factor, since the group's size
 * is not known or is 1, or the operation is a barrier or not known. */
double collective_bus_factor(enum collective collective, int64_t size);

/* torch's name of a type (float32), by its word in C++ (Float) or in Kineto (float), and the bytes of an element.
 * NULL: the type is not known. */
const char *collective_dtype(const char *word, unsigned *ret_bytes);

#endif
