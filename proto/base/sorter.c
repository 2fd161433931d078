/* sorter.c - see sorter.h. */
#include "sorter.h"

#include "array.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CAPACITY_FIRST 1024u
/* Bytes of memory to read all portions back, and the least for each portion: enough for a disk to read in long stretches. */
#define WINDOW_BYTES (8u << 20)
#define WINDOW_BYTES_MIN (16u << 10)

struct sorter_run {
	uint64_t at, left; /* position in the file, in records; records that are not read yet */
	uint64_t first, count;
	unsigned char *window;
	size_t used, have; /* records in the window */
	bool in_memory;	   /* the last portion never went to the file: its window is the sorter's buffer */
};

void sorter_init(struct sorter *sorter, int folder, struct memory *memory, size_t bytes, size_t most,
		 int (*compare)(const void *a, const void *b))
{
	memset(sorter, 0, sizeof *sorter);
	sorter->compare = compare;
	sorter->bytes = bytes;
	sorter->folder = folder;
	sorter->fd = -1;
	sorter->memory = memory;
	sorter->capacity_max = most / bytes;
}

static void forget_reading(struct sorter *sorter)
{
	for (size_t i = 0; i < sorter->run_count; i++) {
		if (!sorter->runs[i].in_memory && sorter->runs[i].window)
			memory_put(sorter->memory, sorter->runs[i].window, sorter->window * sorter->bytes);
		sorter->runs[i].window = NULL;
	}
	free(sorter->heap);
	sorter->heap = NULL;
	sorter->heap_count = 0;
}

void sorter_deinit(struct sorter *sorter)
{
	forget_reading(sorter);
	free(sorter->runs);
	memory_put(sorter->memory, sorter->buffer, sorter->capacity * sorter->bytes);
	if (sorter->fd >= 0)
		close(sorter->fd);
	sorter->runs = NULL;
	sorter->buffer = NULL;
	sorter->fd = -1;
	sorter->run_count = sorter->run_capacity = sorter->count = sorter->capacity = 0;
	sorter->total = 0;
}

static int fail(struct sorter *sorter, int error)
{
	if (!sorter->error)
		sorter->error = error;
	return sorter->error;
}

static void sort_buffer(struct sorter *sorter)
{
	if (sorter->unsorted)
		qsort(sorter->buffer, sorter->count, sorter->bytes, sorter->compare);
	sorter->unsorted = false;
}

static int open_file(struct sorter *sorter)
{
	sorter->fd = openat(sorter->folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (sorter->fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT)) {
		/* The file system has no nameless files. */
		char name[64];
		snprintf(name, sizeof name, "sort-%d-%p.temporary", (int)getpid(), (void *)sorter);
		sorter->fd = openat(sorter->folder, name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
		if (sorter->fd >= 0)
			unlinkat(sorter->folder, name, 0);
	}
	return sorter->fd < 0 ? fail(sorter, -errno) : 0;
}

static int room_for_run(struct sorter *sorter)
{
	if (!ARRAY_GROW(sorter->runs, sorter->run_count, sorter->run_capacity))
		return fail(sorter, -ENOMEM);
	return 0;
}

/* Writes the records in memory as a portion. */
static int spill(struct sorter *sorter)
{
	if ((sorter->fd < 0 && open_file(sorter)) || room_for_run(sorter))
		return sorter->error;
	sort_buffer(sorter);
	uint64_t first = sorter->total - sorter->count;
	size_t n = sorter->count * sorter->bytes, done = 0;
	while (done < n) {
		ssize_t wrote =
			pwrite(sorter->fd, sorter->buffer + done, n - done, (off_t)(first * sorter->bytes + done));
		if (wrote < 0 && errno == EINTR)
			continue;
		if (wrote <= 0)
			return fail(sorter, wrote < 0 ? -errno : -EIO);
		done += (size_t)wrote;
	}
	sorter->runs[sorter->run_count++] = (struct sorter_run){.first = first, .count = sorter->count};
	sorter->count = 0;
	return 0;
}

/* If the memory is used up, portions stay small. Too many portions could not be read back, so from a certain number on
 * the buffer grows beyond the bound. */
#define RUNS_SMALL 64u
static int make_room(struct sorter *sorter)
{
	size_t capacity = sorter->capacity ? sorter->capacity * 2 : CAPACITY_FIRST;
	if (capacity > sorter->capacity_max)
		capacity = sorter->capacity_max;
	if (capacity <= sorter->capacity)
		return spill(sorter);
	size_t from = sorter->capacity * sorter->bytes, to = capacity * sorter->bytes;
	bool due = sorter->run_count >= (size_t)RUNS_SMALL * (sorter->capacity / CAPACITY_FIRST);
	void *grown = due || !sorter->capacity ? memory_grow_anyway(sorter->memory, sorter->buffer, from, to)
					       : memory_grow(sorter->memory, sorter->buffer, from, to);
	if (!grown)
		return sorter->capacity ? spill(sorter) : fail(sorter, -ENOMEM);
	sorter->buffer = grown;
	sorter->capacity = capacity;
	return 0;
}

int sorter_add(struct sorter *sorter, const void *record)
{
	if (sorter->error)
		return sorter->error;
	if (sorter->count == sorter->capacity && make_room(sorter))
		return sorter->error;
	unsigned char *place = sorter->buffer + sorter->count * sorter->bytes;
	memcpy(place, record, sorter->bytes);
	if (sorter->count && !sorter->unsorted)
		sorter->unsorted = sorter->compare(place - sorter->bytes, place) > 0;
	sorter->count++;
	sorter->total++;
	return 0;
}

/* --- reading --- */

static const unsigned char *head_of(const struct sorter *sorter, size_t run)
{
	const struct sorter_run *r = &sorter->runs[run];
	return r->window + r->used * sorter->bytes;
}

/* Reads the next window of a portion. Returns whether there was one. */
static bool refill(struct sorter *sorter, struct sorter_run *run)
{
	size_t n = run->left < sorter->window ? (size_t)run->left : sorter->window, done = 0;
	size_t bytes = n * sorter->bytes;
	while (done < bytes) {
		ssize_t got =
			pread(sorter->fd, run->window + done, bytes - done, (off_t)(run->at * sorter->bytes + done));
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			fail(sorter, got < 0 ? -errno : -EIO);
			return false;
		}
		done += (size_t)got;
	}
	run->used = 0;
	run->have = n;
	run->at += n;
	run->left -= n;
	return n > 0;
}

static bool before(const struct sorter *sorter, size_t a, size_t b)
{
	int order = sorter->compare(head_of(sorter, a), head_of(sorter, b));
	return order ? order < 0 : a < b;
}

/* The records that still are in memory become the last portion; they do not go to the disk. */
static int add_last(struct sorter *sorter)
{
	if (sorter->run_count && sorter->runs[sorter->run_count - 1].in_memory)
		return 0;
	if (room_for_run(sorter))
		return sorter->error;
	sort_buffer(sorter);
	sorter->runs[sorter->run_count++] = (struct sorter_run){.count = sorter->count, .in_memory = true};
	return 0;
}

static void sift_down(struct sorter *sorter, size_t i)
{
	for (;;) {
		size_t least = i, left = 2 * i + 1, right = left + 1;
		if (left < sorter->heap_count && before(sorter, sorter->heap[left], sorter->heap[least]))
			least = left;
		if (right < sorter->heap_count && before(sorter, sorter->heap[right], sorter->heap[least]))
			least = right;
		if (least == i)
			return;
		size_t other = sorter->heap[i];
		sorter->heap[i] = sorter->heap[least];
		sorter->heap[least] = other;
		i = least;
	}
}

int sorter_rewind(struct sorter *sorter)
{
	if (sorter->error)
		return sorter->error;
	sorter->at = 0;
	if (sorter->fd < 0) {
		sort_buffer(sorter);
		return 0;
	}
	if (add_last(sorter))
		return sorter->error;
	forget_reading(sorter);
	size_t bytes = WINDOW_BYTES / sorter->run_count;
	sorter->window = (bytes < WINDOW_BYTES_MIN ? WINDOW_BYTES_MIN : bytes) / sorter->bytes;
	sorter->heap = calloc(sorter->run_count, sizeof *sorter->heap);
	if (!sorter->heap)
		return fail(sorter, -ENOMEM);
	for (size_t i = 0; i < sorter->run_count; i++) {
		struct sorter_run *run = &sorter->runs[i];
		if (run->in_memory) {
			run->window = sorter->buffer;
			run->have = run->count;
			run->used = 0;
			run->left = 0;
			if (run->have)
				sorter->heap[sorter->heap_count++] = i;
			continue;
		}
		run->window = memory_get_anyway(sorter->memory, sorter->window * sorter->bytes);
		if (!run->window)
			return fail(sorter, -ENOMEM);
		run->at = run->first;
		run->left = run->count;
		if (refill(sorter, run))
			sorter->heap[sorter->heap_count++] = i;
	}
	for (size_t i = sorter->heap_count / 2; i-- > 0;)
		sift_down(sorter, i);
	sorter->fresh = true;
	return sorter->error;
}

const void *sorter_next(struct sorter *sorter)
{
	if (sorter->error)
		return NULL;
	if (sorter->fd < 0)
		return sorter->at < sorter->count ? sorter->buffer + sorter->at++ * sorter->bytes : NULL;
	/* The caller has used the last record until now; only now may its window be refilled. */
	if (!sorter->fresh && sorter->heap_count) {
		struct sorter_run *run = &sorter->runs[sorter->heap[0]];
		if (++run->used == run->have && !refill(sorter, run)) {
			if (sorter->error)
				return NULL;
			sorter->heap[0] = sorter->heap[--sorter->heap_count];
		}
		sift_down(sorter, 0);
	}
	sorter->fresh = false;
	return sorter->heap_count ? head_of(sorter, sorter->heap[0]) : NULL;
}
