/* sink_string.c - names and inputs, each written once into the segment's arena.
 *
 * A thread first asks its own caches; on a miss it takes the lock, looks the text up in the process's table and appends it
 * where it is new. The lock is held for some tens of ns, and for about a microsecond when the text is new. A signal handler
 * cannot meet it held by its own thread: sink_enter has turned it away. A waiter that gets no turn in time goes on without
 * a name and counts that. */
#include "sink_internal.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

/* Open addressing over hashes; three quarters full is full. */
#define TABLE_SLOTS (1u << 16)
#define LOCK_SPINS 200
#define LOCK_YIELDS 2000

struct slot {
	uint64_t hash; /* 0 = empty */
	uint32_t id;
	uint32_t bytes;
};

static struct slot *table;
static uint32_t table_used;
static _Atomic uint32_t lock;

static int lock_take(void)
{
	for (unsigned i = 0; i < LOCK_SPINS + LOCK_YIELDS; i++) {
		uint32_t open = 0;
		if (atomic_load_explicit(&lock, memory_order_relaxed) == 0 &&
		    atomic_compare_exchange_weak_explicit(&lock, &open, 1, memory_order_acquire, memory_order_relaxed))
			return 1;
		if (i >= LOCK_SPINS)
			sched_yield();
	}
	return 0;
}

static void lock_give(void)
{
	atomic_store_explicit(&lock, 0, memory_order_release);
}

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

static int same(uint32_t id, uint32_t bytes, const void *text)
{
	return memcmp(sink_state.segment.strings + (size_t)id * 8 + 8, text, bytes) == 0;
}

/* Under the lock. 0 where there is no room. */
static uint32_t append(const void *text, uint32_t bytes, uint32_t type)
{
	struct segment *s = &sink_state.segment;
	uint32_t ready = atomic_load_explicit(&s->header->strings_ready, memory_order_acquire);
	if (ready > s->strings_bytes)
		ready = s->strings_bytes;
	uint32_t at = atomic_load_explicit(&s->header->strings_used, memory_order_relaxed);
	if (at < SEGMENT_STRINGS_FIRST)
		at = SEGMENT_STRINGS_FIRST;
	uint32_t size = SEGMENT_STRING_SIZE(bytes);
	if (at > ready || size > ready - at)
		return 0;
	struct segment_string entry = {bytes, type};
	memcpy(s->strings + at, &entry, sizeof entry);
	memcpy(s->strings + at + sizeof entry, text, bytes);
	atomic_store_explicit(&s->header->strings_used, at + size, memory_order_release);
	return at / 8;
}

static uint32_t intern(const void *text, uint32_t bytes, uint64_t hash, uint32_t type)
{
	uint32_t id = 0;
	if (!lock_take())
		return 0;
	if (table) {
		uint32_t i = (uint32_t)(hash >> 32) & (TABLE_SLOTS - 1);
		while (table[i].hash &&
		       !(table[i].hash == hash && table[i].bytes == bytes && same(table[i].id, bytes, text)))
			i = (i + 1) & (TABLE_SLOTS - 1);
		if (table[i].hash) {
			id = table[i].id;
		} else if (table_used < TABLE_SLOTS / 4 * 3) {
			id = append(text, bytes, type);
			if (id) {
				table[i] = (struct slot){hash, id, bytes};
				table_used++;
			}
		}
	}
	lock_give();
	return id;
}

static uint32_t lookup(struct sink_thread *t, const void *text, uint32_t bytes, uint64_t seed, uint32_t type)
{
	uint64_t hash = hash_bytes(text, bytes, seed);
	struct sink_cached *c = &t->cache_text[hash & (SINK_CACHE - 1)];
	if (c->key == hash && c->bytes == bytes && same(c->id, bytes, text))
		return c->id;
	uint32_t id = intern(text, bytes, hash, type);
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
	uint64_t key = (uint64_t)(uintptr_t)text;
	struct sink_cached *c = &t->cache_static[(key * 0x9e3779b97f4a7c15ull) >> 56];
	_Static_assert(SINK_CACHE == 256, "the index above has 8 bits");
	if (c->key == key)
		return c->id;
	uint32_t id = sink_string(t, text, strlen(text), kind);
	if (id)
		*c = (struct sink_cached){key, id, 0};
	return id;
}

uint32_t sink_inputs(struct sink_thread *t, const uint32_t *words, size_t n)
{
	uint32_t id = n <= LIMIT_INPUTS_WORDS ? lookup(t, words, (uint32_t)n * 4, 2, STRING_INPUTS) : 0;
	if (!id)
		sink_lost(LOSS_INPUTLESS, EVENT_OPERATOR);
	return id;
}

int strings_prepare(void)
{
	if (table)
		return 0;
	void *map = mmap(NULL, TABLE_SLOTS * sizeof(struct slot), PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (map == MAP_FAILED)
		return -errno;
	table_used = 0;
	table = map;
	return 0;
}

void strings_release(void)
{
	/* Under the lock: a thread that was stuck inside finds no table and goes on without a name. */
	if (!table || !lock_take())
		return;
	struct slot *map = table;
	table = NULL;
	lock_give();
	munmap(map, TABLE_SLOTS * sizeof(struct slot));
}

uint64_t strings_bytes(void)
{
	return table ? (uint64_t)table_used * sizeof(struct slot) : 0;
}

/* ---------------------------------------------------------------- names of threads */

/* Given by nvtxNameOsThread, mostly long before any recording. */
#define NAMED_THREADS 1024
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
		if (t->tid == tid)
			thread_describe(t);
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
