/* inference.h - finds where a network ran without gradient, which nobody has marked: evaluation while a model is trained, a teacher's forward,
 * or what a server does. docs/breakdown.md has the rule. */
#ifndef PROFD_STORE_BREAKDOWN_INFERENCE_H
#define PROFD_STORE_BREAKDOWN_INFERENCE_H

#include "phases.h"

/* Looks at each of the step thread's operators once: sets `graded`, and leaves `network` to the outermost alone. They are sorted by start, what
 * encloses first. */
void inference_prepare(struct phases *phases);
/* Marks PHASE_INFERENCE, where no mark of another phase of training is. After forward and backward were marked. False: no memory. */
bool inference_mark(const struct phases *phases, const struct breakdown *breakdown, struct activity *activity);

#endif
