/* memory_work.h - what derive_memory.c has read and found, for memory_held.c, too. No locks. */
#ifndef PROFD_STORE_MEMORY_WORK_H
#define PROFD_STORE_MEMORY_WORK_H

#include "memory_calls.h"
#include "numbered.h"

/* What an allocator gave out, or took back. */
struct block {
	int64_t time;
	union {
		int64_t address; /* until the ends are found; 0: not known */
		int64_t until;	 /* when the next record of its address comes; INT64_MAX: none does */
	};
	int64_t bytes; /* with their sign; 0 where they are not known */
	int64_t total, reserved;
	uint32_t order, call, step; /* step: MEMORY_NULL: none */
	uint16_t device;
	uint8_t known;
	bool taken;
};

/* Of one device in one step. */
struct memory_level {
	int64_t bytes, given_bytes, level, peak, peak_time, reserved; /* reserved: ROWS_NULL: not told */
	uint32_t taken, given, unknown;
	bool any, absolute;
};

/* Of one name in one step. */
struct memory_total {
	int64_t taken, bytes, given, unknown, self_cpu, cpu, self_device, device;
};

/* Of one device. */
struct memory_device {
	int64_t level;
	int64_t peak, peak_time;
	int64_t held; /* bytes of those who held the peak */
	bool any, absolute;
};

struct memory_work {
	struct store *store;
	struct memory_calls calls;
	struct block *blocks;
	size_t count, blocks_room;
	struct numbered devices, steps, names; /* (type, device), (step, type, device), (name, step) */
	struct memory_device *device;
	struct memory_level *level;
	struct memory_total *total;
	size_t device_room, level_room, total_room;
	bool nameless; /* there are blocks whose addresses are not known */
};

/* NULL: there is none. owner: the innermost operator around the block. */
static inline const struct memory_call *memory_call_of(const struct memory_work *work, uint32_t number)
{
	return number == NUMBERED_NONE ? NULL : &work->calls.all[number];
}

static inline const struct memory_call *memory_owner_of(const struct memory_work *work, const struct block *block)
{
	const struct memory_call *call = memory_call_of(work, block->call);
	return call ? memory_call_of(work, call->owner) : NULL;
}

/* Writes memory_holders: the blocks that were held when each device's peak was. */
void memory_held_at_peak(struct memory_work *work);
/* Writes memory_leaks: the blocks that stay. */
void memory_held_at_end(struct memory_work *work);

#endif
