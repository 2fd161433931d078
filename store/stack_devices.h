/* stack_devices.h - an estimate: how much device time was launched from the places in which samples of Python's
 * stacks were taken. A sample stands for a stretch of its thread's time. If an operator, or a call of CUDA in no
 * operator, was open then, it gave devices work at an even rate: the device time that it launched, divided by its own
 * time. So the sums are right on average, and closer with more samples. */
#ifndef PROFD_STORE_STACK_DEVICES_H
#define PROFD_STORE_STACK_DEVICES_H

#include "file.h"

/* Makes temp.sample_devices (id: rowid in samples; device: ns) of the samples for which there is an estimate. Call it
 * once samples have durations and launches are derived. */
void stack_devices_estimate(struct store *store);
void stack_devices_drop(struct store *store);

#endif
