/* calls.h - the functions of the CUDA API by CUPTI's callback ids: their names in this library, and which of them a
 * capture wants. Ids change from release to release, names do not. So the library itself is asked for the names.
 *
 * calls_learn fills the table once in a process (the guard's thread); afterwards it is only read. */
#ifndef PROFD_AGENT_CUPTI_CALLS_H
#define PROFD_AGENT_CUPTI_CALLS_H

#include <stdint.h>

/* Callback ids of one domain that are known; 13.5 has 880. */
#define CALLS_MOST 2048

enum calls_domain { CALLS_DRIVER = 1, CALLS_RUNTIME = 2 }; /* CUpti_CallbackDomain */

/* Asks the library for all names. */
void calls_learn(void);

/* The ids of a domain go from 1 up to the returned number less 1. */
uint32_t calls_end(unsigned domain);

/* Does a capture want this call, if it does not want all? Yes for launches, copies, sets, graph launches, waits, memory
 * taken and given back, and code loaded, and for an id without a name in the library. */
int calls_wanted(unsigned domain, uint32_t cbid);

/* Its name without the suffix of its version ("cudaLaunchKernel"), *ret_bytes long and not NUL-terminated; lives as long as the
 * process. NULL where the library has none. */
const char *calls_name(unsigned domain, uint32_t cbid, uint32_t *ret_bytes);

#endif
