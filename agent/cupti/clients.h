/* clients.h - CUPTI's other clients in the process, and our place beside them. What calls CUPTI runs on the guard's thread. */
#ifndef PROFD_AGENT_CUPTI_CLIENTS_H
#define PROFD_AGENT_CUPTI_CLIENTS_H

#include "api.h"

/* Is somebody there whose recording ours would harm? Takes nothing from anybody. session.shared: several clients are there, or may
 * be. 0, or -EBUSY with the reason in session.sentence. */
int clients_look(void);

/* Finds CUPTI free for us, or a place beside several others, of which clients_own() is then the handle. 0, or -EBUSY with the
 * reason in session.sentence. */
int clients_find_place(void);

/* Our subscriber; NULL: we use the calls without one. */
cupti_subscriber clients_own(void);

/* Gives the place back. kinds: bit set of what CUPTI refused to switch off; it is ours still, and clients_left() tells it to the
 * next session. */
void clients_leave(uint64_t kinds);
uint64_t clients_left(void);

/* Buffer callbacks, by the calls that go with the place. A CUptiResult. */
int clients_register(void);

/* Where the place turned out not to be ours: leaves it. -EBUSY. */
int clients_refuse(void);

/* Records that CUPTI has dropped since the last question. */
uint64_t clients_dropped(void);

/* Have another client's callbacks taken the place of ours? Only what was seen to go elsewhere says so: a record that CUPTI drops or
 * that comes late does not. Kind DEVICE may be enabled meanwhile. What clients_dropped() has told it is added to `dropped`. */
enum clients_answer { CLIENTS_OURS, CLIENTS_REPLACED, CLIENTS_UNKNOWN };
enum clients_answer clients_replaced(uint64_t *dropped);

/* For clients_register: what CUPTI calls, and how often it has asked for a buffer. device_record: bytes of a record of a device. */
void clients_callbacks(cupti_requested requested, cupti_completed completed, uint64_t (*asked)(void),
		       size_t device_record);

#endif
