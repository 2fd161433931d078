/* peek.h - memory of this process that need not be there, or that the job may have protected: the kernel reads it, or says whether it can be
 * touched, and does not fault. Any thread; errno may change. */
#ifndef PROFD_AGENT_CORE_PEEK_H
#define PROFD_AGENT_CORE_PEEK_H

#include <stddef.h>
#include <stdint.h>

/* Returns how many bytes could be read, or a negative errno. */
long peek_bytes(uintptr_t at, void *to, size_t bytes);

/* Pieces of so many bytes each at these addresses (at most 64), one behind the other, by one call. Returns how many: where one cannot be
 * read those behind it are not. */
uint32_t peek_pieces(const uint64_t *at, void *to, size_t bytes, uint32_t count);

/* 0 where the kernel says that the byte cannot be read. Where it answers nobody (a container's filter), it is taken to be there. */
int peek_is_there(const void *at);

/* Can the word of 4 bytes be written? 1, 0, or a negative errno: the kernel does not tell. */
int peek_is_writable(const void *at);

/* The same two, asked once a page; true where the kernel does not tell. *known: a page of which it is so, numbered from 1; it becomes this
 * one. */
int peek_is_there_once(uintptr_t *known, const void *at);
int peek_is_writable_once(uintptr_t *known, const void *at);

#endif
