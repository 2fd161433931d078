/* buffers.c - see buffers.h. Two sizes in one piece of address space: large buffers, and when these are all in use small ones,
 * so that a job whose device is far behind goes on being recorded for a while. Free ones lie on two stacks; their heads carry
 * a count, so that a compare-and-swap cannot mistake one visit for another. */
#include "buffers.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/* 2 MiB hold about 8,000 launches, so that a job's thread asks for one a few times a second; NVIDIA recommends 1 to 10 MB. */
#define LARGE_BYTES ((size_t)2 << 20)
#define LARGE 128u
#define SMALL_BYTES ((size_t)64 << 10)
#define SMALL 512u
#define BUFFERS (LARGE + SMALL)
#define POOL_BYTES (LARGE * LARGE_BYTES + SMALL * SMALL_BYTES)
/* Free buffers with pages behind them that are kept ready. */
#define STOCK 4u

enum { UNUSED, FREE, HELD, READING, COLLECTED };

static struct buffer {
	_Atomic uint32_t state;
	_Atomic uint32_t next; /* on a stack: index + 1, 0 = last */
	uint32_t generation;
} buffers[BUFFERS];

static uint8_t *pool;
static uint32_t generation;
static _Atomic uint64_t heads[2];  /* uses << 32 | index + 1 */
static _Atomic uint32_t opened[2]; /* buffers of each size that have ever been used */
static _Atomic int32_t stocked;	   /* large ones on the stack */
static _Atomic uint64_t bytes_out, bytes_most;

static size_t size_of(uint32_t i)
{
	return i < LARGE ? LARGE_BYTES : SMALL_BYTES;
}

static uint8_t *data_of(uint32_t i)
{
	return i < LARGE ? pool + i * LARGE_BYTES : pool + LARGE * LARGE_BYTES + (i - LARGE) * SMALL_BYTES;
}

static int index_of(const uint8_t *data, uint32_t *ret)
{
	if (!pool || data < pool || data >= pool + POOL_BYTES)
		return 0;
	size_t at = (size_t)(data - pool);
	*ret = at < LARGE * LARGE_BYTES ? (uint32_t)(at / LARGE_BYTES)
					: LARGE + (uint32_t)((at - LARGE * LARGE_BYTES) / SMALL_BYTES);
	return data_of(*ret) == data;
}

static void push(uint32_t i)
{
	_Atomic uint64_t *head = &heads[i >= LARGE];
	uint64_t seen = atomic_load_explicit(head, memory_order_relaxed);
	do
		atomic_store_explicit(&buffers[i].next, (uint32_t)seen, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(head, &seen, ((seen >> 32) + 1) << 32 | (i + 1),
						      memory_order_release, memory_order_relaxed));
	if (i < LARGE)
		atomic_fetch_add_explicit(&stocked, 1, memory_order_relaxed);
}

/* Index + 1, or 0. */
static uint32_t pop(int small)
{
	uint64_t seen = atomic_load_explicit(&heads[small], memory_order_acquire), next;
	do {
		if (!(uint32_t)seen)
			return 0;
		next = atomic_load_explicit(&buffers[(uint32_t)seen - 1].next, memory_order_relaxed);
	} while (!atomic_compare_exchange_weak_explicit(&heads[small], &seen, ((seen >> 32) + 1) << 32 | next,
							memory_order_acquire, memory_order_acquire));
	if (!small)
		atomic_fetch_sub_explicit(&stocked, 1, memory_order_relaxed);
	return (uint32_t)seen;
}

/* One that was never used: its pages are made accessible. Index + 1, or 0. */
static uint32_t open_one(int small)
{
	uint32_t most = small ? SMALL : LARGE, i = atomic_load_explicit(&opened[small], memory_order_relaxed);
	do
		if (i >= most)
			return 0;
	while (!atomic_compare_exchange_weak(&opened[small], &i, i + 1));
	i += small ? LARGE : 0;
	int saved = errno;
	int r = mprotect(data_of(i), size_of(i), PROT_READ | PROT_WRITE);
	errno = saved;
	return r < 0 ? 0 : i + 1;
}

int buffers_begin(uint32_t number)
{
	if (!pool) {
		/* Nothing behind it until it is used, so that it counts as address space alone. */
		void *map = mmap(NULL, POOL_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (map == MAP_FAILED)
			return -ENOMEM;
		pool = map;
	}
	generation = number;
	atomic_store(&bytes_most, atomic_load(&bytes_out));
	return 0;
}

static void populate(uint32_t i)
{
	/* Before Linux 5.14 a job's thread faults on a page when it comes to it. */
	madvise(data_of(i), size_of(i), MADV_POPULATE_WRITE);
}

void buffers_stock(int cold)
{
	uint32_t warm[STOCK], n = 0;
	if (cold) {
		while (n < STOCK && (warm[n] = pop(0)) != 0)
			populate(warm[n++] - 1);
		while (n > 0)
			push(warm[--n] - 1);
	}
	while (atomic_load_explicit(&stocked, memory_order_relaxed) < (int32_t)STOCK) {
		uint32_t i = open_one(0);
		if (!i)
			return;
		populate(i - 1);
		atomic_store_explicit(&buffers[i - 1].state, FREE, memory_order_relaxed);
		push(i - 1);
	}
}

uint8_t *buffers_take(size_t *ret_bytes)
{
	uint32_t i = 0;
	for (int small = 0; !i && small < 2; small++) {
		i = pop(small);
		if (!i)
			i = open_one(small);
	}
	*ret_bytes = 0;
	if (!i)
		return NULL;
	i--;
	buffers[i].generation = generation;
	atomic_store_explicit(&buffers[i].state, HELD, memory_order_release);
	*ret_bytes = size_of(i);
	uint64_t out = atomic_fetch_add_explicit(&bytes_out, *ret_bytes, memory_order_relaxed) + *ret_bytes;
	/* Racy: of two threads the smaller one may win; the next request puts that right. */
	if (out > atomic_load_explicit(&bytes_most, memory_order_relaxed))
		atomic_store_explicit(&bytes_most, out, memory_order_relaxed);
	return data_of(i);
}

static int move(uint32_t i, uint32_t from, uint32_t to)
{
	return atomic_compare_exchange_strong_explicit(&buffers[i].state, &from, to, memory_order_acq_rel,
						       memory_order_relaxed);
}

int buffers_receive(uint8_t *data, uint32_t *ret_generation)
{
	uint32_t i;
	if (!index_of(data, &i))
		return -1;
	*ret_generation = buffers[i].generation;
	if (move(i, HELD, READING))
		return 1;
	if (!move(i, COLLECTED, READING))
		return 0;
	/* Collected in an earlier session: what has come since is new. In this one all of it is written. */
	if (*ret_generation != generation)
		return 1;
	buffers_give(data, SIZE_MAX);
	return 0;
}

void buffers_give(uint8_t *data, size_t used)
{
	uint32_t i;
	if (!index_of(data, &i))
		return;
	if (used == SIZE_MAX || used > size_of(i))
		madvise(data, size_of(i), MADV_DONTNEED);
	else
		memset(data, 0, used);
	atomic_fetch_sub_explicit(&bytes_out, size_of(i), memory_order_relaxed);
	atomic_store_explicit(&buffers[i].state, FREE, memory_order_relaxed);
	push(i);
}

/* CUPTI may be writing there. */
__attribute__((no_sanitize("thread"))) static int written(uint32_t i)
{
	return *(volatile uint32_t *)(void *)data_of(i) != 0;
}

uint32_t buffers_held(uint32_t *ret_written)
{
	uint32_t held = 0;
	*ret_written = 0;
	for (int small = 0; small < 2; small++) {
		uint32_t first = small ? LARGE : 0, n = atomic_load_explicit(&opened[small], memory_order_acquire);
		for (uint32_t i = first; i < first + n; i++) {
			uint32_t state = atomic_load_explicit(&buffers[i].state, memory_order_acquire);
			held += state == HELD || state == READING;
			*ret_written += state == READING || (state == HELD && written(i));
		}
	}
	return held;
}

/* Behind the last word that is not 0: they were all zero when CUPTI got them. */
__attribute__((no_sanitize("thread"))) static size_t filled(uint32_t i)
{
	const volatile uint64_t *words = (const volatile uint64_t *)(void *)data_of(i);
	size_t n = size_of(i) / sizeof *words;
	while (n > 0 && words[n - 1] == 0)
		n--;
	return n * sizeof *words;
}

size_t buffers_filled(void)
{
	size_t sum = 0;
	for (uint32_t i = 0; i < BUFFERS; i++)
		if (atomic_load_explicit(&buffers[i].state, memory_order_acquire) == HELD)
			sum += filled(i);
	return sum;
}

__attribute__((no_sanitize("thread"))) static void copy(uint64_t *to, const volatile uint64_t *from, size_t bytes)
{
	for (size_t i = 0; i < bytes / sizeof *to; i++)
		to[i] = from[i];
}

uint8_t *buffers_collect(uint32_t *at, size_t *ret_bytes, uint32_t *ret_generation)
{
	static void *copied;
	if (!copied) {
		void *map = mmap(NULL, LARGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
				 -1, 0);
		if (map == MAP_FAILED)
			return NULL;
		copied = map;
	}
	for (; *at < BUFFERS; (*at)++) {
		uint32_t i = *at;
		if (atomic_load_explicit(&buffers[i].state, memory_order_acquire) != HELD || !written(i) ||
		    !move(i, HELD, COLLECTED))
			continue;
		copy(copied, (const volatile uint64_t *)(void *)data_of(i), size_of(i));
		*ret_bytes = size_of(i);
		*ret_generation = buffers[i].generation;
		(*at)++;
		return copied;
	}
	madvise(copied, LARGE_BYTES, MADV_DONTNEED);
	return NULL;
}

uint64_t buffers_most(void)
{
	return atomic_load_explicit(&bytes_most, memory_order_relaxed);
}

uint64_t buffers_bytes(void)
{
	uint64_t used = atomic_load_explicit(&opened[0], memory_order_relaxed) * LARGE_BYTES +
			atomic_load_explicit(&opened[1], memory_order_relaxed) * SMALL_BYTES;
	uint64_t most = buffers_most() + STOCK * LARGE_BYTES;
	return most < used ? most : used;
}

void buffers_trim(void)
{
	static uint16_t trimmed[BUFFERS];
	uint32_t n = 0, i;
	/* Off the stacks meanwhile, so that nobody takes one whose content is about to go. */
	for (int small = 0; small < 2; small++)
		while (n < BUFFERS && (i = pop(small)) != 0) {
			madvise(data_of(i - 1), size_of(i - 1), MADV_DONTNEED);
			trimmed[n++] = (uint16_t)(i - 1);
		}
	while (n > 0)
		push(trimmed[--n]);
}
