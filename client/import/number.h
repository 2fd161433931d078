/* number.h - numbers of a trace for the fields of a record: what a field has no room for is as good as none. */
#ifndef PROFD_CLIENT_IMPORT_NUMBER_H
#define PROFD_CLIENT_IMPORT_NUMBER_H

#include <stdint.h>

/* 0: none. */
static inline uint32_t small(int64_t value)
{
	return value < 0 || value > UINT32_MAX ? 0 : (uint32_t)value;
}

/* UINT32_MAX: none. */
static inline uint32_t or_none(int64_t value)
{
	return value < 0 || value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

static inline uint64_t large(int64_t value)
{
	return value < 0 ? 0 : (uint64_t)value;
}

/* Thread ids of the oldest traces are addresses. */
static inline uint32_t thread_id(int64_t thread)
{
	if (thread >= 0 && thread <= UINT32_MAX)
		return (uint32_t)thread;
	return (uint32_t)((uint64_t)thread ^ (uint64_t)thread >> 32) | 1u << 31;
}

#endif
