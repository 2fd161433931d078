/* device.h - what derive needs of the device side: API calls and device operations in the order of their correlation
 * ids, ranges and operators in the order in which each thread opened them. It is gathered while records are put in.
 * If another process put some of them in, derive_load.h reads all from the file instead. Memory is bounded
 * (sorter.h). */
#ifndef PROFD_STORE_DEVICE_H
#define PROFD_STORE_DEVICE_H

#include "proto/base/sorter.h"
#include "proto/events.h"
#include "sums.h"

/* An API call, or a record that belongs to one: a kernel, copy, set or graph; or a wait or CUDA event, which only
 * needs its step. */
struct device_item {
	uint32_t order; /* of the correlation id; ids after a wrap follow the others */
	uint8_t rank;	/* within one id: the runtime's call, other calls, operations */
	uint8_t kind, flags;
	union {
		uint8_t source_kind;
		uint8_t failed; /* a call: it returned an error */
	};
	uint64_t row;	/* rowid in its table */
	uint64_t start; /* CLOCK_MONOTONIC ns; 0 = CUPTI had none */
	uint64_t duration;
	uint64_t bytes;
	uint32_t correlation;
	union {
		uint32_t step; /* of a call */
		uint32_t name; /* of a kernel; a graph's id; a copy's kind; the kind of a set's memory */
	};
	union {
		uint32_t thread; /* of a call */
		uint32_t device;
	};
	uint16_t target_kind;
	uint16_t reserved;
	uint32_t stream;
	union {
		uint32_t context;
		uint32_t called; /* name of a call */
	};
};

/* A range or operator on a thread's stack. */
struct device_frame {
	uint32_t thread;
	uint16_t depth;
	uint8_t kind, source;
	uint64_t start, end; /* CLOCK_MONOTONIC ns */
	uint64_t id, parent;
	uint32_t name, domain;
	uint8_t asynchronous; /* another thread closed it */
	uint8_t reserved[7];
};

struct device {
	bool wanted;	 /* cupti is on: frames will be needed */
	bool incomplete; /* some records were not put in here: see derive_load */
	int folder;
	struct memory *memory;		  /* not owned */
	uint64_t base_order;		  /* 1 + the correlation id in the middle of the order; 0 = none has come */
	uint64_t operations;		  /* kernels, copies, sets, graphs */
	uint64_t calls;			  /* API calls that were recorded in a step */
	uint32_t first_order, last_order; /* of the first and the last of these calls */
	struct sorter items, frames;
	struct sums sums;
	struct sorter rows_outside; /* struct device_change: API calls of no step */
	uint64_t rows[EVENT_KIND_COUNT];
};

/* A change to one row of an event table. */
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

/* Is it an operation of a device that a call launched? These are added up. */
static inline bool device_is_operation(unsigned kind)
{
	return kind == EVENT_KERNEL || kind == EVENT_COPY || kind == EVENT_SET || kind == EVENT_GRAPH_LAUNCH;
}
/* Are records of the kind gathered here? */
static inline bool device_gathers(unsigned kind)
{
	return event_place_of(kind) == PLACE_CALL || kind == EVENT_RANGE || kind == EVENT_OPERATOR;
}

void device_init(struct device *device, int folder, struct memory *memory);
/* Device records will come: gathers from now on. If ranges or operators were put in before, that has no effect:
 * derive reads everything from the file. */
void device_want(struct device *device);
void device_deinit(struct device *device);
/* Takes an event that becomes the next row of its kind. */
void device_add(struct device *device, struct store *store, const union event_any *event);

#endif
