/* large.h - arrays that may become too large for memory. If the thread has named a folder (large_begin), an array of
 * some MiB or more is a nameless file there, and the file is mapped. large_rest() lets its pages go, and they come back
 * when they are read. Without a folder, or if the folder takes no such file, arrays lie in memory, as malloc's do.
 *
 * An array belongs to the thread that has made it. Threads share nothing here, so there are no locks. */
#ifndef PROFD_PROTO_BASE_LARGE_H
#define PROFD_PROTO_BASE_LARGE_H

#include <stddef.h>

/* From now on, for this thread. folder: descriptor of a folder on a disk, the caller's. least: bytes from which on an array lies in a file. */
void large_begin(int folder, size_t least);
/* No new files. Those of arrays that are there stay until large_free(). Returns the first error of the disk since large_begin(), a negative
 * errno, or 0: the array whose growth it refused was told so by NULL. */
int large_end(void);

/* Room for `count` elements of `bytes` each, not cleared; cleared. NULL: no memory, or no disk. */
void *large_get(size_t count, size_t bytes);
void *large_get_clear(size_t count, size_t bytes);
/* As array_grow() (array.h); the array is NULL or one of these. large_reserve() makes a new one with room for `wanted`.
 * If there is no memory for so many, *room is 0, and the array grows from there. */
void *large_grow(void *array, size_t count, size_t *room, size_t bytes);
void *large_reserve(size_t wanted, size_t *room, size_t bytes);
/* Gives back what is behind the first `bytes`; the array may move. */
void *large_fit(void *array, size_t bytes);
void large_free(void *array);

#define LARGE_GROW(array, count, room)                                                                                 \
	((count) < (room) || ({                                                                                        \
		 __typeof__(array) large_grown = large_grow(array, count, &(room), sizeof *(array));                   \
		 if (large_grown)                                                                                      \
			 (array) = large_grown;                                                                        \
		 large_grown != NULL;                                                                                  \
	 }))

/* Pages of the thread's files need not stay in memory. */
void large_rest(void);

/* A loop tells how many bytes it goes through. After every so many bytes this calls large_rest(). */
#define LARGE_REST_BYTES ((size_t)12 << 20)
extern _Thread_local size_t large_gone;
static inline void large_go(size_t bytes)
{
	large_gone += bytes;
	if (__builtin_expect(large_gone > LARGE_REST_BYTES, 0))
		large_rest();
}

#endif
