/* calls.h - the functions of the CUDA API by CUPTI's callback ids: what they are called in this library, and which of them a
 * capture wants. Ids change from release to release, names do not; so they are asked of the library itself.
 *
 * Filled once in a process by calls_learn (the guard's thread), then only read. */
#ifndef PROFD_AGENT_CUPTI_CALLS_H
#define PROFD_AGENT_CUPTI_CALLS_H

#include <stdint.h>

/* Callback ids of one domain that are known; 13.5 has 880. */
#define CALLS_MOST 2048

enum calls_domain { CALLS_DRIVER = 1, CALLS_RUNTIME = 2 }; /* CUpti_CallbackDomain */

/* Asks the library for all names. */
void calls_learn(void);

/* Number of ids of a domain, from 1 up to what this returns less 1. */
uint32_t calls_end(unsigned domain);

/* Does a capture that does not want all calls want this one? Launches, copies, sets, graph launches, waits, memory taken and
 * given back, code loaded. An id that the library has no name for: yes. */
int calls_wanted(unsigned domain, uint32_t cbid);

/* Its name without the suffix of its version ("cudaLaunchKernel"), *ret_bytes long and not NUL-terminated; lives as long as the
 * process. NULL where the library has none. */
const char *calls_name(unsigned domain, uint32_t cbid, uint32_t *ret_bytes);

#endif
