/* stack_devices.h - how much device time was launched from where samples of Python's stacks were taken: an estimate. A sample stands for a
 * stretch of its thread's time. Where an operator, or a call of CUDA in no operator, was open then, devices were given work at the rate
 * of that operator: device time that it launched, divided by its own time. So the sums are right on average, and the
 * more samples there are the closer. */
#ifndef PROFD_STORE_STACK_DEVICES_H
#define PROFD_STORE_STACK_DEVICES_H

#include "file.h"

/* Makes temp.sample_devices (id: rowid in samples; device: ns) of the samples for which there is an estimate. Once samples have their
 * durations, and launches are derived. */
void stack_devices_estimate(struct store *store);
void stack_devices_drop(struct store *store);

#endif
