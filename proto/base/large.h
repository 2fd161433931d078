/* large.h - arrays that may become too large for memory. If the thread has named a folder (large_begin), an array of
 * some MiB or more is a nameless file there, and the file is mapped. large_rest() gives its pages back, and the kernel
 * reads them again when they are used. Without a folder, or if no such file can be made there, arrays lie in memory, as
 * malloc's do.
 *
 * An array belongs to the thread that has made it. Threads share nothing here, so there are no locks. */
#ifndef PROFD_PROTO_BASE_LARGE_H
#define PROFD_PROTO_BASE_LARGE_H

#include <stddef.h>

/* From now on arrays of this thread may lie in files. folder: descriptor of a folder on a disk; the caller keeps it.
 * least: an array of at least so many bytes lies in a file. */
void large_begin(int folder, size_t least);
/* From now on no new files are made; existing ones stay until large_free(). Returns the first error of the disk since
 * large_begin(), a negative errno, or 0. The call that met the error has returned NULL. */
int large_end(void);

/* Room for `count` elements of `bytes` each, not cleared; cleared. NULL: no memory, or no disk. */
void *large_get(size_t count, size_t bytes);
void *large_get_clear(size_t count, size_t bytes);
/* large_grow() is as array_grow() (array.h); the array is NULL or from these functions. large_reserve() makes a new one
 * with room for `wanted` elements. If there is no memory for so many, *room is 0, and the array can grow later. */
void *large_grow(void *array, size_t count, size_t *room, size_t bytes);
void *large_reserve(size_t wanted, size_t *room, size_t bytes);
/* Shortens the array to `bytes`; it may move. */
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

/* A loop tells how many bytes it has gone through. After every LARGE_REST_BYTES this calls large_rest(). */
#define LARGE_REST_BYTES ((size_t)12 << 20)
extern _Thread_local size_t large_gone;
static inline void large_go(size_t bytes)
{
	large_gone += bytes;
	if (__builtin_expect(large_gone > LARGE_REST_BYTES, 0))
		large_rest();
}

#endif
