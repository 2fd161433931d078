/* thread_numbers.h - CUPTI's numbers of threads that are pthread_self(), cut to 32 bits: which thread of the system is it? */
#ifndef PROFD_AGENT_CUPTI_THREAD_NUMBERS_H
#define PROFD_AGENT_CUPTI_THREAD_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

/* A session begins. on: CUPTI's numbers are such. */
void thread_numbers_begin(bool on);

/* The calling thread is about to fill a buffer of CUPTI's: its number is remembered. Any thread; waits for nothing. */
void thread_numbers_seen(void);

/* The system's number of the thread; 0 where it was not seen. */
uint32_t thread_numbers_tid(uint32_t number);

#endif
