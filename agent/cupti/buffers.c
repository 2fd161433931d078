/* buffers.c - see buffers.h. One piece of address space holds buffers of three sizes: when all large ones are in use,
 * small ones are taken, and then tiny ones. So a job whose device is far behind, or that has very many threads, can be
 * recorded for a while longer. Free buffers lie on a stack for each size. The heads of the stacks have a count, so that
 * a compare-and-swap sees that a head has changed and changed back. */
#include "buffers.h"

#include "../core/room.h"

#include "../../proto/mapping.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

enum { LARGE, SMALL, TINY, SIZES };
/* 2 MiB hold about 8,000 launches, so a job's thread needs a new buffer a few times a second; NVIDIA recommends 1 to 10
 * MB. */
static const struct {
	size_t bytes;
	uint32_t count, first;
} sizes[SIZES] = {
	[LARGE] = {2u << 20, 96, 0},
	[SMALL] = {64u << 10, 512, 96},
	[TINY] = {16u << 10, 4096, 608},
};
#define LARGE_BYTES ((size_t)2 << 20)
#define BUFFERS 4704u
/* How many free buffers with mapped pages are kept ready. */
#define STOCK 4u
/* Given to CUPTI when no buffer is left: it holds one record, which nobody reads. */
#define SCRATCH_BYTES 4096u

enum { UNUSED, FREE, HELD, READING, COLLECTED };

static struct buffer {
	_Atomic uint32_t state;
	_Atomic uint32_t next; /* on a stack: index + 1, 0 = last */
	uint32_t generation;
} buffers[BUFFERS];

static uint8_t *pool;
/* Buffers of each size: for how many the pool has address space, and how many may be used in this recording. Near a
 * limit of the process there are fewer. */
static uint32_t mapped[SIZES], allowed[SIZES];
static uint8_t scratch[SCRATCH_BYTES] __attribute__((aligned(64)));
static uint32_t generation;
static _Atomic uint64_t heads[SIZES];  /* uses << 32 | index + 1 */
static _Atomic uint32_t opened[SIZES]; /* buffers of each size that have ever been used */
static _Atomic int32_t stacked[SIZES]; /* how many of these are on the stack */

static unsigned class_of(uint32_t i)
{
	return i < sizes[SMALL].first ? LARGE : i < sizes[TINY].first ? SMALL : TINY;
}

static size_t size_of(uint32_t i)
{
	return sizes[class_of(i)].bytes;
}

/* Where the first buffer of a size lies in the pool. */
static size_t offset_of(unsigned c)
{
	size_t at = 0;
	while (c-- > 0)
		at += mapped[c] * sizes[c].bytes;
	return at;
}

static uint8_t *data_of(uint32_t i)
{
	unsigned c = class_of(i);
	return pool + offset_of(c) + (i - sizes[c].first) * sizes[c].bytes;
}

static size_t pool_bytes(void)
{
	return offset_of(SIZES);
}

static int index_of(const uint8_t *data, uint32_t *ret)
{
	if (!pool || data < pool || data >= pool + pool_bytes())
		return 0;
	size_t at = (size_t)(data - pool);
	unsigned c = at < offset_of(SMALL) ? LARGE : at < offset_of(TINY) ? SMALL : TINY;
	*ret = sizes[c].first + (uint32_t)((at - offset_of(c)) / sizes[c].bytes);
	return data_of(*ret) == data;
}

static void push(uint32_t i)
{
	unsigned c = class_of(i);
	_Atomic uint64_t *head = &heads[c];
	uint64_t seen = atomic_load_explicit(head, memory_order_relaxed);
	do
		atomic_store_explicit(&buffers[i].next, (uint32_t)seen, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(head, &seen, ((seen >> 32) + 1) << 32 | (i + 1),
						      memory_order_release, memory_order_relaxed));
	atomic_fetch_add_explicit(&stacked[c], 1, memory_order_relaxed);
}

/* Index + 1, or 0. */
static uint32_t pop(unsigned c)
{
	uint64_t seen = atomic_load_explicit(&heads[c], memory_order_acquire), next;
	do {
		if (!(uint32_t)seen)
			return 0;
		next = atomic_load_explicit(&buffers[(uint32_t)seen - 1].next, memory_order_relaxed);
	} while (!atomic_compare_exchange_weak_explicit(&heads[c], &seen, ((seen >> 32) + 1) << 32 | next,
							memory_order_acquire, memory_order_acquire));
	atomic_fetch_sub_explicit(&stacked[c], 1, memory_order_relaxed);
	return (uint32_t)seen;
}

/* Takes a buffer that was never used, and makes its pages accessible. Returns index + 1, or 0. */
static uint32_t open_one(unsigned c)
{
	uint32_t i = atomic_load_explicit(&opened[c], memory_order_relaxed);
	do
		if (i >= allowed[c])
			return 0;
	while (!atomic_compare_exchange_weak(&opened[c], &i, i + 1));
	i += sizes[c].first;
	int saved = errno;
	int r = mprotect(data_of(i), size_of(i), PROT_READ | PROT_WRITE);
	errno = saved;
	return r < 0 ? 0 : i + 1;
}

/* Counts as private memory all buffers that were ever made accessible, and during a capture all that may be. */
static void count_memory(int runs)
{
	static _Atomic uint64_t counted;
	uint64_t bytes = 0;
	for (unsigned c = 0; c < SIZES; c++) {
		uint32_t n = atomic_load_explicit(&opened[c], memory_order_relaxed);
		bytes += (uint64_t)(runs && allowed[c] > n ? allowed[c] : n) * sizes[c].bytes;
	}
	room_count(0, (int64_t)(bytes - atomic_exchange(&counted, bytes)));
}

/* How many buffers of each size fit into so many bytes. */
static void fit(uint64_t bytes, uint32_t ret_most[SIZES])
{
	static const uint8_t eighths[SIZES] = {[LARGE] = 5, [SMALL] = 1, [TINY] = 2};
	for (unsigned c = 0; c < SIZES; c++) {
		uint64_t n = bytes / 8 * eighths[c] / sizes[c].bytes;
		ret_most[c] = n < sizes[c].count ? (uint32_t)n : sizes[c].count;
	}
}

int buffers_begin(uint32_t number)
{
	if (!pool) {
		/* The pool uses no memory yet, so it counts as address space only. */
		fit(room_space() / 2, mapped);
		void *map =
			mapping_new(NULL, pool_bytes(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (!map)
			return -ENOMEM;
		room_count((int64_t)pool_bytes(), 0);
		pool = map;
	}
	count_memory(0);
	fit(room_memory() / 2, allowed);
	for (unsigned c = 0; c < SIZES; c++) {
		/* Buffers that have been used before need no new memory. */
		allowed[c] += atomic_load_explicit(&opened[c], memory_order_relaxed);
		allowed[c] = allowed[c] < mapped[c] ? allowed[c] : mapped[c];
	}
	if (!allowed[LARGE] && !allowed[SMALL])
		return -ENOMEM;
	count_memory(1);
	generation = number;
	return 0;
}

static void populate(uint32_t i)
{
	/* Before Linux 5.14 this fails, and a job's thread faults on each page at first use. */
	madvise(data_of(i), size_of(i), MADV_POPULATE_WRITE);
}

void buffers_stock(int cold)
{
	uint32_t warm[STOCK], n = 0;
	if (cold) {
		while (n < STOCK && (warm[n] = pop(LARGE)) != 0)
			populate(warm[n++] - 1);
		while (n > 0)
			push(warm[--n] - 1);
	}
	while (atomic_load_explicit(&stacked[LARGE], memory_order_relaxed) < (int32_t)STOCK) {
		uint32_t i = open_one(LARGE);
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
	for (unsigned c = 0; !i && c < SIZES; c++) {
		i = pop(c);
		if (!i)
			i = open_one(c);
	}
	*ret_bytes = 0;
	if (!i)
		return NULL;
	i--;
	buffers[i].generation = generation;
	atomic_store_explicit(&buffers[i].state, HELD, memory_order_release);
	*ret_bytes = size_of(i);
	return data_of(i);
}

uint8_t *buffers_scratch(size_t *ret_bytes)
{
	*ret_bytes = sizeof scratch;
	return scratch;
}

int buffers_scarce(void)
{
	uint32_t out = atomic_load_explicit(&opened[TINY], memory_order_relaxed) -
		       (uint32_t)atomic_load_explicit(&stacked[TINY], memory_order_relaxed);
	return out > allowed[TINY] / 2;
}

static int move(uint32_t i, uint32_t from, uint32_t to)
{
	return atomic_compare_exchange_strong_explicit(&buffers[i].state, &from, to, memory_order_acq_rel,
						       memory_order_relaxed);
}

int buffers_receive(uint8_t *data, uint32_t *ret_generation)
{
	uint32_t i;
	if (data == scratch)
		return 0;
	if (!index_of(data, &i))
		return -1;
	*ret_generation = buffers[i].generation;
	if (move(i, HELD, READING))
		return 1;
	if (!move(i, COLLECTED, READING))
		return 0;
	/* A buffer that was collected in an earlier session may hold new records. A buffer that was collected in this
	 * session is finished. */
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
	for (unsigned c = 0; c < SIZES; c++) {
		uint32_t first = sizes[c].first, n = atomic_load_explicit(&opened[c], memory_order_acquire);
		for (uint32_t i = first; i < first + n; i++) {
			uint32_t state = atomic_load_explicit(&buffers[i].state, memory_order_acquire);
			held += state == HELD || state == READING;
			*ret_written += state == READING || (state == HELD && written(i));
		}
	}
	return held;
}

/* The end of the last word that is not 0. The whole buffer was zero when CUPTI got it. */
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
		void *map = room_try(LARGE_BYTES);
		if (!map)
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

/* How many pages of the `bytes` from data_of(first) on are in memory. */
static uint64_t resident(uint32_t first, size_t bytes)
{
	unsigned char pages[512];
	uint64_t n = 0;
	uint8_t *at = data_of(first), *end = at + bytes;
	while (at < end) {
		size_t some = (size_t)(end - at) < sizeof pages * 4096 ? (size_t)(end - at) : sizeof pages * 4096;
		/* Where mincore() is forbidden all pages count. */
		if (mincore(at, some, pages) < 0)
			memset(pages, 1, sizeof pages);
		for (size_t i = 0; i < some / 4096; i++)
			n += pages[i] & 1;
		at += some;
	}
	return n;
}

uint64_t buffers_bytes(void)
{
	uint64_t pages = 0;
	int saved = errno;
	for (unsigned c = 0; pool && c < SIZES; c++)
		pages += resident(sizes[c].first,
				  atomic_load_explicit(&opened[c], memory_order_relaxed) * sizes[c].bytes);
	errno = saved;
	return pages * 4096;
}

void buffers_trim(void)
{
	static uint16_t trimmed[BUFFERS];
	uint32_t n = 0, i;
	/* The buffers are off the stacks meanwhile, so that nobody takes one before its pages are given back. */
	for (unsigned c = 0; c < SIZES; c++)
		while (n < BUFFERS && (i = pop(c)) != 0) {
			madvise(data_of(i - 1), size_of(i - 1), MADV_DONTNEED);
			trimmed[n++] = (uint16_t)(i - 1);
		}
	while (n > 0)
		push(trimmed[--n]);
	count_memory(0);
}
