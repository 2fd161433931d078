/* thread_numbers.c - see thread_numbers.h. A later thread may overwrite the slot of an earlier one. Then the earlier
 * thread's number is unknown, and is never given the later thread's tid. */
#include "thread_numbers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#define THREAD_NUMBERS 4096u

static bool is_on;
/* pthread_self() cut to 32 bits << 32 | tid */
static _Atomic uint64_t thread_numbers[THREAD_NUMBERS];

void thread_numbers_begin(bool on)
{
	is_on = on;
}

static _Atomic uint64_t *number_slot(uint32_t number)
{
	return &thread_numbers[(number * 0x9e3779b1u) >> 20];
}
_Static_assert(THREAD_NUMBERS == 1u << 12, "the index above has 12 bits");

void thread_numbers_seen(void)
{
	if (!is_on)
		return;
	uint32_t number = (uint32_t)(uintptr_t)pthread_self();
	uint64_t pair = (uint64_t)number << 32 | (uint32_t)syscall(SYS_gettid);
	atomic_store_explicit(number_slot(number), pair, memory_order_relaxed);
}

uint32_t thread_numbers_tid(uint32_t number)
{
	if (!is_on)
		return number;
	uint64_t pair = atomic_load_explicit(number_slot(number), memory_order_relaxed);
	return pair >> 32 == number ? (uint32_t)pair : 0;
}
