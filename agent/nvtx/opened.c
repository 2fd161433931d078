/* opened.c - start/end ranges that are open.
 *
 * Any thread; no locks. A fixed table in private memory that is never unmapped. Free entries form a stack whose head
 * has a counter against ABA. An entry belongs to the thread that took it off the stack, and later to the thread that
 * sets its handle to 0 by compare-and-swap. */
#include "opened.h"
#include "../core/room.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

_Static_assert(NVTX_OPENED == 1u << 16, "a handle has 16 bits for its entry");

struct entry {
	_Atomic uint64_t handle; /* 0 = not open; else uses << 16 | number of the entry, uses from 1 */
	_Atomic uint32_t next;	 /* of the free stack: number + 1 */
	uint64_t uses;
	struct nvtx_opened range;
};

static _Atomic(struct entry *) table;
static _Atomic uint32_t touched;    /* entries from here on have never been used */
static _Atomic uint64_t free_stack; /* counter << 32 | number + 1 of the first */

int nvtx_opened_init(void)
{
	if (atomic_load_explicit(&table, memory_order_acquire))
		return 0;
	void *map = room_try(sizeof(struct entry) * NVTX_OPENED);
	if (!map)
		return -ENOMEM;
	atomic_store_explicit(&table, map, memory_order_release);
	return 0;
}

static struct entry *entry_take(struct entry *entries)
{
	uint64_t head = atomic_load_explicit(&free_stack, memory_order_acquire);
	while ((uint32_t)head) {
		struct entry *first = &entries[(uint32_t)head - 1];
		uint64_t next = (head >> 32) + 1;
		next = next << 32 | atomic_load_explicit(&first->next, memory_order_relaxed);
		if (atomic_compare_exchange_weak_explicit(&free_stack, &head, next, memory_order_acquire,
							  memory_order_acquire))
			return first;
	}
	uint32_t number = atomic_load_explicit(&touched, memory_order_relaxed);
	while (number < NVTX_OPENED)
		if (atomic_compare_exchange_weak_explicit(&touched, &number, number + 1, memory_order_relaxed,
							  memory_order_relaxed))
			return &entries[number];
	return NULL;
}

static void entry_give(struct entry *entries, struct entry *e)
{
	uint64_t head = atomic_load_explicit(&free_stack, memory_order_relaxed), mine;
	do {
		atomic_store_explicit(&e->next, (uint32_t)head, memory_order_relaxed);
		mine = ((head >> 32) + 1) << 32 | ((uint32_t)(e - entries) + 1);
	} while (!atomic_compare_exchange_weak_explicit(&free_stack, &head, mine, memory_order_release,
							memory_order_relaxed));
}

uint64_t nvtx_opened_add(const struct nvtx_opened *range)
{
	struct entry *entries = atomic_load_explicit(&table, memory_order_acquire);
	struct entry *e = entries ? entry_take(entries) : NULL;
	if (!e)
		return 0;
	e->range = *range;
	uint64_t handle = ++e->uses << 16 | (uint64_t)(e - entries);
	atomic_store(&e->handle, handle);
	return handle;
}

static int entry_end(struct entry *entries, struct entry *e, uint64_t handle, struct nvtx_opened *ret_range)
{
	if (!handle || !atomic_compare_exchange_strong(&e->handle, &handle, 0))
		return 0;
	*ret_range = e->range;
	entry_give(entries, e);
	return 1;
}

int nvtx_opened_take(uint64_t handle, struct nvtx_opened *ret_range)
{
	struct entry *entries = atomic_load_explicit(&table, memory_order_acquire);
	if (!entries || handle >> 16 == 0)
		return 0;
	return entry_end(entries, &entries[handle & (NVTX_OPENED - 1)], handle, ret_range);
}

int nvtx_opened_sweep(uint32_t *at, struct nvtx_opened *ret_range)
{
	struct entry *entries = atomic_load_explicit(&table, memory_order_acquire);
	uint32_t end = atomic_load(&touched);
	while (entries && *at < end) {
		struct entry *e = &entries[(*at)++];
		if (entry_end(entries, e, atomic_load(&e->handle), ret_range))
			return 1;
	}
	return 0;
}
