/* kinds.h - switches CUPTI's kinds of records on, and off again. Called by jobs of the guard (session.h). session.kinds
 * are the kinds that are on, session.refused those that CUPTI does not record. */
#ifndef PROFD_AGENT_CUPTI_KINDS_H
#define PROFD_AGENT_CUPTI_KINDS_H

#include "layout.h"

/* Switches on all kinds that the session asks for. Kinds for which the step thread must stand come first, and then it
 * may go on (hold.h). 0, or CUPTI's answer where it does not record kernels. */
int kinds_enable(const struct cupti_layout *layout);
/* Switches off all kinds that are on, except for one that takes long. Calls go off a moment later than the others. */
void kinds_disable(void);
/* The same without that moment. */
void kinds_disable_at_once(void);
/* Is the kind that takes long still on? / Switches it off. */
int kinds_left_for_last(void);
void kinds_disable_last(void);
/* Adds to session.sentence what CUPTI refuses to record, in words that users know. */
void kinds_say_refused(void);

#endif
