/* device.h - what derive needs of the device side, gathered while the rows go by (or, where they have not gone by here, read
 * from the file): API calls and device operations in the order of their correlation ids, ranges and operators in the
 * order in which each thread opened them. In bounded memory: see sorter.h. Ingest's thread, then derive's. */
#ifndef PROFD_STORE_DEVICE_H
#define PROFD_STORE_DEVICE_H

#include "base/sorter.h"
#include "proto/events.h"
#include "sums.h"

/* An API call, or something that is found by one: a kernel, copy, set, graph, or a wait or CUDA event whose step alone is
 * wanted. */
struct device_item {
	uint32_t order; /* of the correlation ids, wrapped ones behind the others */
	uint8_t rank;	/* within one id: the runtime's call, other calls, operations */
	uint8_t kind, flags, source_kind;
	uint64_t row;	/* rowid in its table */
	uint64_t start; /* CLOCK_MONOTONIC ns; 0 = CUPTI had none */
	uint64_t duration;
	uint64_t bytes;
	uint32_t correlation;
	union {
		uint32_t step; /* of a call */
		uint32_t name; /* of a kernel; id of a graph; kind of a copy, of a set's memory */
	};
	union {
		uint32_t thread; /* of a call */
		uint32_t device;
	};
	uint16_t target_kind;
	uint16_t reserved;
	uint32_t stream, context;
};

/* A range or operator on a thread's stack. */
struct device_frame {
	uint32_t thread;
	uint16_t depth;
	uint8_t kind, source;
	uint64_t start, end; /* CLOCK_MONOTONIC ns */
	uint64_t id, parent;
	uint32_t name, domain;
	uint8_t asynchronous; /* closed by another thread */
	uint8_t reserved[7];
};

struct device {
	bool wanted;	 /* cupti is on: frames are worth the memory */
	bool incomplete; /* not all of it went by here: device_load */
	int folder;
	struct memory *memory; /* not owned */
	uint64_t base_order;   /* correlation id that stands in the middle of the order, + 1; 0 = none has come */
	uint64_t operations;   /* kernels, copies, sets, graphs */
	uint64_t calls;	       /* API calls that were recorded in a step */
	uint32_t first_order, last_order; /* of these */
	struct sorter items, frames;
	struct sums sums;
	struct sorter rows_outside; /* struct device_change: API calls of no step */
	uint64_t rows[EVENT_KIND_COUNT];
};

/* What is to be done to one row of an event table. */
enum device_what { CHANGE_REMOVE, CHANGE_DOUBT, CHANGE_STEP };
struct device_change {
	uint64_t row;
	uint32_t step;
	uint8_t kind, what;
	uint16_t reserved;
};
int device_compare_changes(const void *a, const void *b);

/* Bytes that one sorter keeps in memory. */
#define DEVICE_MEMORY (24u << 20)

void device_init(struct device *device, int folder, struct memory *memory);
/* cupti is on, as the agent says: what comes from now on is gathered; where ranges and operators have gone by, derive reads
 * all from the file instead. */
void device_want(struct device *device);
void device_deinit(struct device *device);
/* An event that was put into the file as the next row of its kind. */
void device_add(struct device *device, struct store *store, const union event_any *event);
/* Begins anew with what stands in the file. */
int device_load(struct device *device, struct store *store);

#endif
