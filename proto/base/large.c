/* large.c - see large.h. A head lies before each array and describes it. */
#include "large.h"

#include "array.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A capture has an array for each thread, and a hostile process may claim any number of threads. */
#define FIRST_ROOM 16
/* A file grows by at least this much, and by at least an eighth. Unlike memory it is not moved when it grows. */
#define STEP_BYTES ((size_t)8 << 20)

/* The array after it is aligned for any type. */
struct head {
	_Alignas(max_align_t) size_t mapped; /* bytes, with the head; 0: the array lies in memory */
	int fd;
	struct head *before, *next; /* of arrays in files */
};

static _Thread_local struct {
	bool on;
	int folder, error;
	size_t least;
	struct head *first;
} state;
_Thread_local size_t large_gone;

void large_begin(int folder, size_t least)
{
	state.on = true;
	state.folder = folder;
	state.least = least;
	state.error = 0;
}

int large_end(void)
{
	int error = state.error;
	state.on = false;
	state.error = 0;
	return error;
}

static struct head *head_of(void *array)
{
	return (struct head *)array - 1;
}

static void link_in(struct head *head)
{
	head->before = NULL;
	head->next = state.first;
	if (head->next)
		head->next->before = head;
	state.first = head;
}

static void link_out(struct head *head)
{
	if (head->before)
		head->before->next = head->next;
	else
		state.first = head->next;
	if (head->next)
		head->next->before = head->before;
}

/* Memory is not used instead of a full disk: later writes would fail, too, and memory has no bound here. */
static bool is_full(int error)
{
	if (error != ENOSPC && error != EDQUOT && error != EFBIG && error != EIO)
		return false;
	if (!state.error)
		state.error = -error;
	return true;
}

static int open_file(void)
{
	int fd = openat(state.folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT)) {
		/* The file system has no nameless files. */
		char name[64];
		snprintf(name, sizeof name, "array-%d-%p.temporary", (int)getpid(), (void *)&state);
		fd = openat(state.folder, name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
		if (fd >= 0)
			unlinkat(state.folder, name, 0);
	}
	return fd;
}

static size_t in_pages(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	return (bytes + page - 1) / page * page;
}

/* The blocks are allocated before they are written, so that a full disk is an error here, and not a signal later. NULL:
 * *full says that memory may not be used instead. */
static struct head *map(size_t bytes, bool *full)
{
	size_t mapped = in_pages(bytes);
	/* A disk that has refused is not asked again, because some file systems fill the disk before they refuse. */
	*full = state.error != 0;
	if (*full)
		return NULL;
	int fd = open_file(), error = fd < 0 ? errno : posix_fallocate(fd, 0, (off_t)mapped);
	struct head *head = error ? MAP_FAILED : mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (head == MAP_FAILED) {
		*full = is_full(error);
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	*head = (struct head){.mapped = mapped, .fd = fd};
	link_in(head);
	return head;
}

static void unmap(struct head *head)
{
	int fd = head->fd;
	link_out(head);
	munmap(head, head->mapped);
	close(fd);
}

static void *get(size_t count, size_t bytes, bool clear)
{
	size_t n;
	bool full = false;
	if (__builtin_mul_overflow(count, bytes, &n) || n > SIZE_MAX / 2)
		return NULL;
	n += sizeof(struct head);
	struct head *head = NULL;
	if (state.on && n >= state.least && (head = map(n, &full)))
		return head + 1;
	if (full)
		return NULL;
	head = clear ? calloc(1, n) : malloc(n);
	if (!head)
		return NULL;
	*head = (struct head){.fd = -1};
	return head + 1;
}

void *large_get(size_t count, size_t bytes)
{
	return get(count, bytes, false);
}

void *large_get_clear(size_t count, size_t bytes)
{
	return get(count, bytes, true);
}

void large_free(void *array)
{
	if (!array)
		return;
	if (head_of(array)->mapped)
		unmap(head_of(array));
	else
		free(head_of(array));
}

/* Changes the length of the file and of its mapping. NULL: they are not changed. */
static void *resize(struct head *head, size_t bytes)
{
	size_t mapped = in_pages(bytes);
	struct head *moved = head;
	int error = mapped <= head->mapped ? 0
		    : state.error	   ? -state.error
					   : posix_fallocate(head->fd, 0, (off_t)mapped);
	if (error) {
		is_full(error);
		return NULL;
	}
	if (mapped != head->mapped) {
		link_out(head);
		moved = mremap(head, head->mapped, mapped, MREMAP_MAYMOVE);
		if (moved == MAP_FAILED) {
			link_in(head);
			return NULL;
		}
		/* If this fails the blocks are only not free yet. */
		if (mapped < moved->mapped && ftruncate(moved->fd, (off_t)mapped))
			is_full(EIO);
		moved->mapped = mapped;
		link_in(moved);
	}
	return moved + 1;
}

static void *in_memory(void *array, size_t bytes)
{
	struct head *head = realloc(array ? head_of(array) : NULL, sizeof *head + bytes);
	if (!head)
		return NULL;
	if (!array)
		*head = (struct head){.fd = -1};
	return head + 1;
}

/* For an array in memory: it may now be large enough for a file. */
static void *larger(void *array, size_t used, size_t bytes)
{
	if (!state.on || bytes + sizeof(struct head) < state.least)
		return in_memory(array, bytes);
	void *moved = large_get(bytes, 1);
	if (moved && array) {
		memcpy(moved, array, used);
		large_free(array);
	}
	return moved;
}

void *large_grow(void *array, size_t count, size_t *room, size_t bytes)
{
	if (count < *room)
		return array;
	bool mapped = array && head_of(array)->mapped;
	size_t more = mapped ? *room / 8 + STEP_BYTES / bytes : *room ? *room : FIRST_ROOM;
	size_t wanted = *room + more, n;
	if (__builtin_mul_overflow(wanted, bytes, &n) || n > SIZE_MAX / 2)
		return NULL;
	void *grown = mapped ? resize(head_of(array), sizeof(struct head) + n) : larger(array, count * bytes, n);
	if (grown)
		*room = wanted;
	/* Lets go of the pages that have been filled up to now. */
	if (mapped)
		large_rest();
	return grown;
}

void *large_reserve(size_t wanted, size_t *room, size_t bytes)
{
	void *made = wanted ? large_get(wanted, bytes) : NULL;
	*room = made ? wanted : 0;
	return made;
}

void *large_fit(void *array, size_t bytes)
{
	struct head *head = head_of(array);
	return head->mapped ? resize(head, sizeof *head + bytes) : in_memory(array, bytes);
}

void large_rest(void)
{
	large_gone = 0;
	/* The data stay in the file, because the mapping is shared. */
	for (struct head *head = state.first, *next; head; head = next) {
		next = head->next;
		madvise(head, head->mapped, MADV_DONTNEED);
	}
}
