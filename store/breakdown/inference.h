/* inference.h - finds where a network ran without gradient and nobody marked it: evaluation while a model is trained,
 * a teacher's forward, or the work of a server. docs/breakdown.md has the rule. */
#ifndef PROFD_STORE_BREAKDOWN_INFERENCE_H
#define PROFD_STORE_BREAKDOWN_INFERENCE_H

#include "phases.h"

/* Looks at each of the step thread's operators once: sets `graded`, and keeps `network` only for outermost operators.
 * Operators are sorted by start, an enclosing one first. */
void inference_prepare(struct phases *phases);
/* Marks PHASE_INFERENCE where no mark of another phase of training is. Call it once forward and backward are marked.
 * False: no memory. */
bool inference_mark(const struct phases *phases, const struct breakdown *breakdown, struct activity *activity);

#endif
