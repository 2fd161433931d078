/* thread_numbers.h - finds the kernel's tid of a thread by CUPTI's number of it, where that number is pthread_self()
 * cut to 32 bits. */
#ifndef PROFD_AGENT_CUPTI_THREAD_NUMBERS_H
#define PROFD_AGENT_CUPTI_THREAD_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

/* A session begins. on: CUPTI's numbers are pthread_self(); else they are tids. */
void thread_numbers_begin(bool on);

/* The calling thread is about to fill a buffer of CUPTI: remembers its number. Any thread; waits for nothing. */
void thread_numbers_seen(void);

/* The thread's tid; 0 where the thread was not seen. */
uint32_t thread_numbers_tid(uint32_t number);

#endif
