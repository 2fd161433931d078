/* blocks.c - see blocks.h. A hash table without chains: a block lies in one of WINDOW places from its own on, and all
 * of them are looked at. So a place needs no mark when its block is taken out. An address belongs to one thread from
 * its allocation to its end, so two threads never change the same entry. A place is taken by one compare-and-swap. */
#include "blocks.h"

#include "../core/room.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>

/* 16 MiB: a large job holds some 100,000 blocks at a time. */
#define PLACES_MOST (1u << 20)
#define PLACES_LEAST (1u << 12)
#define WINDOW 16u
/* Places for the blocks of one page: torch aligns CPU blocks to 64 bytes. */
#define PAGE_PLACES 64u

struct place {
	_Atomic uint64_t address; /* 0 = free */
	_Atomic uint64_t bytes;
};

static _Atomic(struct place *) places;
static uint32_t place_count; /* a power of two; set before `places` */
static _Atomic uint32_t crowded;

int blocks_take_room(void)
{
	if (!atomic_load(&places)) {
		uint64_t space = room_space(), memory = room_memory(), most = space < memory ? space : memory;
		uint32_t count = PLACES_MOST;
		while (count > PLACES_LEAST && (uint64_t)count * sizeof(struct place) > most / 2)
			count /= 2;
		struct place *room =
			(uint64_t)count * sizeof *room <= most / 2 ? room_map((size_t)count * sizeof *room) : NULL;
		if (!room)
			return -ENOMEM;
		place_count = count;
		atomic_store(&places, room);
	}
	blocks_give_back();
	return 0;
}

void blocks_give_back(void)
{
	struct place *room = atomic_load(&places);
	if (room)
		madvise(room, blocks_bytes(), MADV_DONTNEED);
	atomic_store(&crowded, 0);
}

uint64_t blocks_bytes(void)
{
	return (uint64_t)place_count * sizeof(struct place);
}

/* The index of the block's own place. Blocks of one page lie side by side in the table, too. So the blocks of a step
 * use few pages of the table, which stay in the processor's cache. */
static uint32_t place_of(uint64_t address)
{
	uint64_t page = (address >> 12) * 0x9e3779b97f4a7c15u;
	return (uint32_t)(page >> 40) * PAGE_PLACES + (uint32_t)((address >> 6) + (page >> 34)) % PAGE_PLACES;
}

/* A block whose end was not seen may still be in the table. The first place that has the address or is free is taken,
 * so blocks_take() finds the newer one first. */
void blocks_put(uint64_t address, uint64_t bytes)
{
	struct place *room = atomic_load_explicit(&places, memory_order_acquire);
	if (!room || !address)
		return;
	uint32_t mask = place_count - 1, from = place_of(address);
	for (uint32_t i = from; i < from + WINDOW; i++) {
		struct place *p = &room[i & mask];
		uint64_t there = atomic_load_explicit(&p->address, memory_order_relaxed);
		if (there == address ||
		    (!there && atomic_compare_exchange_strong_explicit(&p->address, &there, address,
								       memory_order_relaxed, memory_order_relaxed))) {
			atomic_store_explicit(&p->bytes, bytes, memory_order_relaxed);
			return;
		}
	}
	atomic_store_explicit(&crowded, 1, memory_order_relaxed);
}

bool blocks_take(uint64_t address, uint64_t *ret_bytes)
{
	struct place *room = atomic_load_explicit(&places, memory_order_acquire);
	if (!room || !address)
		return false;
	uint32_t mask = place_count - 1, from = place_of(address);
	for (uint32_t i = from; i < from + WINDOW; i++) {
		struct place *p = &room[i & mask];
		if (atomic_load_explicit(&p->address, memory_order_relaxed) != address)
			continue;
		*ret_bytes = atomic_load_explicit(&p->bytes, memory_order_relaxed);
		atomic_store_explicit(&p->address, 0, memory_order_release);
		return true;
	}
	return false;
}

bool blocks_crowded(void)
{
	return atomic_load_explicit(&crowded, memory_order_relaxed) != 0;
}
