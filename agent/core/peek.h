/* peek.h - reads memory of this process that may be unmapped or protected. The kernel reads it, or says whether it can
 * be read or written, so there is no fault. Any thread; errno may change. */
#ifndef PROFD_AGENT_CORE_PEEK_H
#define PROFD_AGENT_CORE_PEEK_H

#include <stddef.h>
#include <stdint.h>

/* Returns how many bytes could be read, or a negative errno. */
long peek_bytes(uintptr_t at, void *to, size_t bytes);

/* Reads pieces of so many bytes each from these addresses (at most 64) by one call, and puts them one after the other.
 * Returns how many were read: after a piece that cannot be read, no further piece is. */
uint32_t peek_pieces(const uint64_t *at, void *to, size_t bytes, uint32_t count);

/* 0 where the kernel says that the byte cannot be read. Where the kernel does not answer (a container's filter), 1. */
int peek_is_there(const void *at);

/* Can the word of 4 bytes be written? 1, 0, or a negative errno: the kernel does not tell. */
int peek_is_writable(const void *at);

/* The same two, asked once for each page; true where the kernel does not tell. *known is a page for which the answer is
 * true, numbered from 1. If the answer is true, *known becomes the page of `at`. */
int peek_is_there_once(uintptr_t *known, const void *at);
int peek_is_writable_once(uintptr_t *known, const void *at);

#endif
