/* clients.h - CUPTI's other clients in the process, and our place beside them. What calls CUPTI runs on the guard's thread. */
#ifndef PROFD_AGENT_CUPTI_CLIENTS_H
#define PROFD_AGENT_CUPTI_CLIENTS_H

#include "api.h"

/* Finds CUPTI free for us alone, or a place beside the others, of which clients_own() is then the handle. 0, or a negative errno
 * with the reason in session.sentence: -EBUSY where somebody else has it. */
int clients_find_place(void);

/* Our subscriber; NULL: we are alone, and use the calls without one. */
cupti_subscriber clients_own(void);

/* Gives the place back. */
void clients_leave(void);

/* Buffer callbacks, by the calls that go with the place. A CUptiResult. */
int clients_register(void);

/* Where the place beside others turned out not to work: leaves it, and says who is there. -EBUSY. */
int clients_refuse(void);

/* Has anybody activity kinds on, besides us, as far as CUPTI says? */
int clients_record(void);

/* Have another client's callbacks taken the place of ours? Kind DEVICE may be enabled meanwhile. */
int clients_replaced(void);

/* For clients_register: what CUPTI calls, and how often it has asked for a buffer. */
void clients_callbacks(cupti_requested requested, cupti_completed completed, uint64_t (*asked)(void));

#endif
