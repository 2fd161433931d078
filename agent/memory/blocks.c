/* blocks.c - see blocks.h. A hash table without chains: a block may lie in WINDOW places from its own on, and all of them are looked at,
 * so that none has to be marked when one is taken out. One address is one thread's at a time, from its allocation to its end: two
 * never change the same entry, and a place is taken by one compare-and-swap. */
#include "blocks.h"

#include "../core/room.h"
#include "proto/mapping.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>

/* 16 MiB: a large job holds some 100,000 blocks at a time. */
#define PLACES_MOST (1u << 20)
#define PLACES_LEAST (1u << 12)
#define WINDOW 16u

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
		while (count > PLACES_LEAST && (uint64_t)count * sizeof(struct place) > most)
			count /= 2;
		struct place *room = mapping_new(NULL, (size_t)count * sizeof *room, PROT_READ | PROT_WRITE,
						 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
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

static struct place *place_of(struct place *room, uint64_t address, uint32_t i)
{
	uint64_t hash = (address >> 4) * 0x9e3779b97f4a7c15u;
	return &room[((uint32_t)(hash >> 40) + i) & (place_count - 1)];
}

static struct place *find(struct place *room, uint64_t address)
{
	for (uint32_t i = 0; i < WINDOW; i++) {
		struct place *p = place_of(room, address, i);
		if (atomic_load_explicit(&p->address, memory_order_relaxed) == address)
			return p;
	}
	return NULL;
}

void blocks_put(uint64_t address, uint64_t bytes)
{
	struct place *room = atomic_load_explicit(&places, memory_order_acquire);
	if (!room || !address)
		return;
	/* It is there where its end was not seen. */
	struct place *p = find(room, address);
	for (uint32_t i = 0; !p && i < WINDOW; i++) {
		struct place *free = place_of(room, address, i);
		uint64_t none = 0;
		if (!atomic_load_explicit(&free->address, memory_order_relaxed) &&
		    atomic_compare_exchange_strong(&free->address, &none, address))
			p = free;
	}
	if (p)
		atomic_store_explicit(&p->bytes, bytes, memory_order_relaxed);
	else
		atomic_store_explicit(&crowded, 1, memory_order_relaxed);
}

bool blocks_take(uint64_t address, uint64_t *ret_bytes)
{
	struct place *room = atomic_load_explicit(&places, memory_order_acquire);
	struct place *p = room && address ? find(room, address) : NULL;
	if (!p)
		return false;
	*ret_bytes = atomic_load_explicit(&p->bytes, memory_order_relaxed);
	atomic_store_explicit(&p->address, 0, memory_order_release);
	return true;
}

bool blocks_crowded(void)
{
	return atomic_load_explicit(&crowded, memory_order_relaxed) != 0;
}
