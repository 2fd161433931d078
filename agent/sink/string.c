/* string.c - names and inputs, each written once into the segment's arena.
 *
 * A thread first looks into its own caches. Then it looks the text up in the process's table, and appends it if it is
 * new. There are no locks, so a thread that is interrupted in the middle holds up no other. Room in the arena is taken
 * by one compare-and-swap, which writes the length there; a slot of the table by another, which writes the id. Where
 * two threads write the same text at once, the first to take the slot wins; nobody refers to the other's copy. */
#include "internal.h"

#include "agent/core/room.h"
#include "proto/limits.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

/* Open addressing over hashes; the table counts as full at three quarters. */
#define TABLE_SLOTS (1u << 16)
#define LOCK_SPINS 200
#define LOCK_NAPS 200
/* How many tables may be left to threads that were stuck in them at the end of a capture; half a MiB of address space
 * each. */
#define ABANDONED_MAX 16

/* Never unmapped: between captures its pages are given back to the system, but a late thread can still touch it. */
struct table {
	struct segment segment;	     /* of the capture; constant while it lasts */
	_Atomic uint32_t tail, used; /* where the arena is free; slots taken */
	/* The low half of the hash, and below it the id; 0 = empty. */
	_Alignas(64) _Atomic uint64_t slots[TABLE_SLOTS];
};

static struct table *mapped;		/* the agent's thread's; NULL: none yet */
static _Atomic(struct table *) current; /* NULL: no capture */
static unsigned abandoned;

static uint64_t mix(uint64_t a, uint64_t b)
{
	__uint128_t product = (__uint128_t)(a ^ 0xa0761d6478bd642full) * (b ^ 0xe7037ed1a0b428dbull);
	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hash_bytes(const unsigned char *p, size_t n, uint64_t seed)
{
	uint64_t h = seed ^ n, a, b = 0;
	while (n >= 16) {
		memcpy(&a, p, 8);
		memcpy(&b, p + 8, 8);
		h = mix(a ^ h, b);
		p += 16;
		n -= 16;
	}
	if (n >= 8) {
		memcpy(&a, p, 8);
		memcpy(&b, p + n - 8, 8);
	} else if (n >= 4) {
		uint32_t low, high;
		memcpy(&low, p, 4);
		memcpy(&high, p + n - 4, 4);
		a = low;
		b = high;
	} else if (n > 0) {
		a = p[0];
		b = (uint64_t)p[n / 2] << 8 | p[n - 1];
	} else {
		a = b = 0;
	}
	h = mix(a ^ h, b ^ 0x8ebc6af09c88c6e3ull);
	return h ? h : 1;
}

/* Does the entry hold this text? An id from the thread's cache may be that of another capture's arena. */
static int same(const struct table *table, uint32_t id, const void *text, uint32_t bytes, uint32_t type)
{
	const struct segment *s = &table->segment;
	struct segment_string entry;
	uint64_t at = (uint64_t)id * 8;
	if (at + SEGMENT_STRING_SIZE(bytes) > s->strings_bytes)
		return 0;
	memcpy(&entry, s->strings + at, sizeof entry);
	return entry.bytes == bytes && entry.type == type && memcmp(s->strings + at + sizeof entry, text, bytes) == 0;
}

/* 0 where there is no room. */
static uint32_t append(struct table *table, const void *text, uint32_t bytes, uint32_t type)
{
	const struct segment *s = &table->segment;
	uint32_t id = segment_string_claim(s, &table->tail, bytes);
	if (!id)
		return 0;
	memcpy(s->strings + (size_t)id * 8 + sizeof(struct segment_string), text, bytes);
	segment_string_finish(s, id, bytes, type);
	segment_strings_publish(s, 0);
	return id;
}

static uint32_t intern(struct table *table, const void *text, uint32_t bytes, uint64_t hash, uint32_t type)
{
	uint32_t own = 0, i = (uint32_t)(hash >> 32);
	for (uint32_t probes = 0; probes < TABLE_SLOTS; probes++, i++) {
		_Atomic uint64_t *slot = &table->slots[i & (TABLE_SLOTS - 1)];
		uint64_t there = atomic_load_explicit(slot, memory_order_acquire);
		if (!there) {
			if (atomic_load_explicit(&table->used, memory_order_relaxed) >= TABLE_SLOTS / 4 * 3 ||
			    (!own && !(own = append(table, text, bytes, type))))
				return 0;
			if (atomic_compare_exchange_strong_explicit(slot, &there, hash << 32 | own,
								    memory_order_acq_rel, memory_order_acquire)) {
				atomic_fetch_add_explicit(&table->used, 1, memory_order_relaxed);
				return own;
			}
		}
		if (there >> 32 == (uint32_t)hash && same(table, (uint32_t)there, text, bytes, type))
			return (uint32_t)there;
	}
	return 0;
}

static uint32_t lookup(struct sink_thread *t, const void *text, uint32_t bytes, uint64_t seed, uint32_t type)
{
	struct table *table = atomic_load_explicit(&current, memory_order_acquire);
	if (!table)
		return 0;
	uint64_t hash = hash_bytes(text, bytes, seed);
	struct sink_cached *c = &t->cache_text[hash & (SINK_CACHE - 1)];
	if (c->hash == hash && c->bytes == bytes && same(table, c->id, text, bytes, type))
		return c->id;
	uint32_t id = intern(table, text, bytes, hash, type);
	if (id)
		*c = (struct sink_cached){hash, id, bytes};
	return id;
}

uint32_t sink_string(struct sink_thread *t, const char *text, size_t bytes, uint8_t kind)
{
	if (bytes == 0)
		text = "";
	if (bytes > LIMIT_STRING_BYTES) {
		bytes = LIMIT_STRING_BYTES;
		while (bytes && ((unsigned char)text[bytes] & 0xc0) == 0x80)
			bytes--;
		sink_lost(LOSS_TRUNCATED, kind);
	}
	uint32_t id = lookup(t, text, (uint32_t)bytes, 1, STRING_TEXT);
	if (!id)
		sink_lost(LOSS_NAMELESS, kind);
	return id;
}

uint32_t sink_string_static(struct sink_thread *t, const char *text, uint8_t kind)
{
	struct sink_named *c = &t->cache_static[(uint64_t)(uintptr_t)text * 0x9e3779b97f4a7c15ull >> 56];
	_Static_assert(SINK_CACHE == 256, "the index above has 8 bits");
	if (c->generation == t->generation && strcmp(c->text, text) == 0)
		return c->id;
	size_t bytes = strlen(text);
	uint32_t id = sink_string(t, text, bytes, kind);
	if (id && bytes < sizeof c->text) {
		c->generation = t->generation;
		c->id = id;
		memcpy(c->text, text, bytes + 1);
	}
	return id;
}

uint32_t *sink_words(struct sink_thread *t)
{
	return t->words;
}

uint32_t sink_inputs(struct sink_thread *t, const uint32_t *words, size_t n, uint8_t kind)
{
	uint32_t id = n <= LIMIT_INPUTS_WORDS ? lookup(t, words, (uint32_t)n * 4, 2, STRING_INPUTS) : 0;
	if (!id)
		sink_lost(LOSS_INPUTLESS, kind);
	return id;
}

int strings_prepare(const struct segment *segment)
{
	if (!mapped) {
		if (abandoned == ABANDONED_MAX)
			return -EBUSY;
		void *map = room_map(sizeof *mapped);
		if (!map)
			return -ENOMEM;
		mapped = map;
	}
	if (atomic_load_explicit(&current, memory_order_relaxed))
		strings_release(0);
	mapped->segment = *segment;
	atomic_store_explicit(&mapped->tail, 0, memory_order_relaxed);
	atomic_store_explicit(&mapped->used, 0, memory_order_relaxed);
	atomic_store_explicit(&current, mapped, memory_order_release);
	return 0;
}

void strings_finish(void)
{
	struct table *table = atomic_load_explicit(&current, memory_order_relaxed);
	if (table)
		segment_strings_publish(&table->segment, 1);
}

void strings_release(uint32_t stuck)
{
	if (!atomic_load_explicit(&current, memory_order_relaxed))
		return;
	atomic_store_explicit(&current, NULL, memory_order_release);
	if (stuck) {
		/* A stuck thread may still go on in the table and in its segment, so both stay mapped. */
		abandoned++;
		mapped = NULL;
		return;
	}
	madvise(mapped, sizeof *mapped, MADV_DONTNEED);
}

uint64_t strings_bytes(void)
{
	const struct table *table = atomic_load_explicit(&current, memory_order_relaxed);
	return table ? (uint64_t)atomic_load_explicit(&table->used, memory_order_relaxed) * sizeof *table->slots : 0;
}

/* ---------------------------------------------------------------- names of threads */

/* Names from nvtxNameOsThread, which mostly come long before any recording. A lock is held for some us; a thread that
 * does not get it in time uses the kernel's name of the thread. A signal handler cannot come here while its own thread
 * has the lock: sink_enter has refused it. */
#define NAMED_THREADS 1024
static _Atomic uint32_t lock;

/* It sleeps between two tries. On Linux 6.18 a thread that calls sched_yield() again and again can keep the processor from
 * all other processes for as long as it does, also from the one that has the lock. */
static int lock_take(void)
{
	const struct timespec nap = {0, 50000};
	for (unsigned i = 0; i < LOCK_SPINS + LOCK_NAPS; i++) {
		uint32_t open = 0;
		if (atomic_load_explicit(&lock, memory_order_relaxed) == 0 &&
		    atomic_compare_exchange_weak_explicit(&lock, &open, 1, memory_order_acquire, memory_order_relaxed))
			return 1;
		if (i >= LOCK_SPINS)
			clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL); /* it leaves errno alone */
	}
	return 0;
}

static void lock_give(void)
{
	atomic_store_explicit(&lock, 0, memory_order_release);
}

static struct named {
	uint32_t tid;
	char name[60];
} named[NAMED_THREADS];
static uint32_t named_used;

void sink_name_thread(uint32_t tid, const char *name, size_t bytes)
{
	if (!lock_take())
		return;
	uint32_t i = 0;
	while (i < named_used && named[i].tid != tid)
		i++;
	if (i < NAMED_THREADS) {
		if (bytes > sizeof named[i].name - 1)
			bytes = sizeof named[i].name - 1;
		while (bytes && ((unsigned char)name[bytes] & 0xc0) == 0x80)
			bytes--;
		named[i].tid = tid;
		memcpy(named[i].name, name, bytes);
		named[i].name[bytes] = 0;
		if (i == named_used)
			named_used++;
	}
	lock_give();
	struct sink_thread *t = sink_enter(EVENT_THREAD);
	if (t) {
		/* A thread that has not been described yet is described with its first record. */
		if (sink_tid(t) == tid && t->described)
			t->described = (uint32_t)thread_describe(t);
		sink_leave(t);
	}
}

size_t sink_name_of_thread(uint32_t tid, char *to, size_t bytes)
{
	size_t n = 0;
	if (!named_used || !lock_take())
		return 0;
	for (uint32_t i = 0; i < named_used; i++) {
		if (named[i].tid != tid)
			continue;
		n = strlen(named[i].name);
		if (n >= bytes)
			n = bytes - 1;
		memcpy(to, named[i].name, n);
		to[n] = 0;
		break;
	}
	lock_give();
	return n;
}
