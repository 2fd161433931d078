/* libcounting.c - preloaded: counts what torch's allocator of CPU memory takes from libc and gives back, by nothing but the calls: posix_memalign from
 * libc10, and free of such blocks. counting_mark() tells what it came to since it was called last. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define VISIBLE __attribute__((visibility("default")))
#define PLACES 65536 /* more than the blocks that live at a time */

/* Blocks and bytes taken and given back since the last mark; what is held, and the most that was, both from the beginning of the process. */
struct counted {
	int64_t taken, taken_bytes, given_back, given_back_bytes, level, peak;
};

VISIBLE void counting_mark(struct counted *ret);
VISIBLE int posix_memalign(void **ret, size_t alignment, size_t bytes);
VISIBLE void free(void *block);
void __libc_free(void *block);
void *__libc_memalign(size_t alignment, size_t bytes);

static struct {
	void *block; /* NULL: free */
	size_t bytes;
} places[PLACES];
static struct counted now;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static size_t place_from(const void *block)
{
	return ((uintptr_t)block >> 6) * 0x9e3779b97f4a7c15u >> 48;
}

/* Where the block is, or else the free place where it is to be. */
static size_t place_of(const void *block)
{
	size_t i = place_from(block);

	while (places[i].block && places[i].block != block)
		i = (i + 1) % PLACES;
	return i;
}

static void put(void *block, size_t bytes)
{
	size_t i = place_of(block);

	places[i].block = block;
	places[i].bytes = bytes;
}

/* Those behind it up to the next free place move up. */
static void clear(size_t i)
{
	places[i].block = NULL;
	for (i = (i + 1) % PLACES; places[i].block; i = (i + 1) % PLACES) {
		void *block = places[i].block;
		places[i].block = NULL;
		put(block, places[i].bytes);
	}
}

static void take(void *block, size_t bytes)
{
	pthread_mutex_lock(&lock);
	put(block, bytes);
	now.taken++;
	now.taken_bytes += (int64_t)bytes;
	now.level += (int64_t)bytes;
	if (now.level > now.peak)
		now.peak = now.level;
	pthread_mutex_unlock(&lock);
}

static void give_back(const void *block)
{
	pthread_mutex_lock(&lock);
	size_t i = place_of(block);
	if (places[i].block) {
		now.given_back++;
		now.given_back_bytes += (int64_t)places[i].bytes;
		now.level -= (int64_t)places[i].bytes;
		clear(i);
	}
	pthread_mutex_unlock(&lock);
}

static int is_torchs(void *address)
{
	Dl_info info;

	return dladdr(address, &info) && info.dli_fname && strstr(info.dli_fname, "/libc10.so");
}

int posix_memalign(void **ret, size_t alignment, size_t bytes)
{
	void *block = __libc_memalign(alignment, bytes);

	if (!block)
		return ENOMEM;
	if (is_torchs(__builtin_return_address(0)))
		take(block, bytes);
	*ret = block;
	return 0;
}

void free(void *block)
{
	if (block)
		give_back(block);
	__libc_free(block);
}

void counting_mark(struct counted *ret)
{
	pthread_mutex_lock(&lock);
	*ret = now;
	now = (struct counted){.level = now.level, .peak = now.level};
	pthread_mutex_unlock(&lock);
}
