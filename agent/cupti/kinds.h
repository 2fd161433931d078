/* kinds.h - the kinds of records that the session has of CUPTI: which are switched on, and off again. Jobs for the guard call it (session.h):
 * session.kinds are those that are on, session.refused those that CUPTI does not record. */
#ifndef PROFD_AGENT_CUPTI_KINDS_H
#define PROFD_AGENT_CUPTI_KINDS_H

#include "layout.h"

/* All that the session asks for, and first what the step thread is to stand for; then it may go on (hold.h). 0; else CUPTI's answer
 * where it does not record kernels. */
int kinds_enable(const struct cupti_layout *layout);
/* All that are on, but for one that takes long; calls a moment later than the rest. */
void kinds_disable(void);
/* Without that moment. */
void kinds_disable_at_once(void);
/* Is that one on? And off with it. */
int kinds_left_for_last(void);
void kinds_disable_last(void);
/* Adds to session.sentence what CUPTI refuses of what users look for in a capture. */
void kinds_say_refused(void);

#endif
