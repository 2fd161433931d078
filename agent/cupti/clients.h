/* clients.h - CUPTI's other clients in the process, and our place beside them. Functions that call CUPTI run on the
 * guard's thread. */
#ifndef PROFD_AGENT_CUPTI_CLIENTS_H
#define PROFD_AGENT_CUPTI_CLIENTS_H

#include "api.h"

/* Would our recording harm that of another client? Changes nothing of other clients. session.shared: several clients
 * are there, or may be. 0, or -EBUSY with the reason in session.sentence. */
int clients_look(void);

/* Makes sure that CUPTI is free for us, or subscribes beside other clients; then clients_own() is our subscriber. 0, or
 * -EBUSY with the reason in session.sentence. */
int clients_find_place(void);

/* Our subscriber; NULL: we use the calls without one. */
cupti_subscriber clients_own(void);

/* Gives the place back. kinds: bit set of kinds that CUPTI refused to switch off. They are still ours, and
 * clients_left() tells them to the next session. */
void clients_leave(uint64_t kinds);
uint64_t clients_left(void);

/* Registers our buffer callbacks, with our subscriber if there is one. A CUptiResult. */
int clients_register(void);

/* Leaves the place because another tool has it. Returns -EBUSY with the reason in session.sentence. */
int clients_refuse(void);

/* How many records CUPTI has dropped since the last call. */
uint64_t clients_dropped(void);

/* Have another client's callbacks replaced ours? Yes only if a record was seen to go elsewhere; a record that CUPTI
 * drops, or that comes late, proves nothing. Kind DEVICE may be enabled by this. Adds the records that CUPTI has
 * dropped to `dropped`. */
enum clients_answer { CLIENTS_OURS, CLIENTS_REPLACED, CLIENTS_UNKNOWN };
enum clients_answer clients_replaced(uint64_t *dropped);

/* For clients_register: the functions that CUPTI calls, and one that tells how often CUPTI has asked for a buffer.
 * device_record: bytes of a record of a device. */
void clients_callbacks(cupti_requested requested, cupti_completed completed, uint64_t (*asked)(void),
		       size_t device_record);

#endif
