/* collectives.h - what operations of several processes are called, and how their sizes and bandwidths are counted. Any thread, no locks, no
 * state. */
#ifndef PROFD_STORE_COLLECTIVES_H
#define PROFD_STORE_COLLECTIVES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In torch.distributed's words. COLLECTIVE_OTHER: torch has a name for it that is not known here. */
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

/* "all_reduce"; "" of what is none. */
const char *collective_word(enum collective collective);
/* Which collective is meant by an operator (c10d::allreduce_), by a backend's range (gloo:all_reduce, nccl:all_reduce), or by torch's name for one of
 * NCCL's (allreduce, _allgather_base). NONE: it is no collective. */
enum collective collective_of_operator(const char *name);
enum collective collective_of_range(const char *name);
enum collective collective_of_record(const char *name);

/* Bytes as NCCL's own tests count them, so that bandwidths can be compared with theirs (nccl-tests, doc/PERFORMANCE.md, and src/gather.cu and
 * scatter.cu of what is not in it): of all_gather what each gets, of gather what the one gets, of reduce_scatter what each puts in, of scatter what
 * the one puts in, else what this process puts in. in, out: bytes of this process's; -1 = not known. `size`: processes in the group, 0 = not
 * known. -1: not known. */
int64_t collective_bytes(enum collective collective, int64_t in, int64_t out, int64_t size);
/* Bandwidth of the wires that the bandwidth bytes / time takes, as there: all_reduce 2 (n - 1) / n, all_gather, reduce_scatter,
 * all_to_all, gather and scatter (n - 1) / n, others 1. 0: nobody knows, as the group's size is not known, or it is one process alone. */
double collective_bus_factor(enum collective collective, int64_t size);

/* torch's name of a type (float32), by the word of its C++ (Float) or by Kineto's (float), and the bytes of an element. NULL: it is none that is known. */
const char *collective_dtype(const char *word, unsigned *ret_bytes);

#endif
