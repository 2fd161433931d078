/* device.h - what a replay does to the simulated driver. Ends the program where the driver refuses. device_open() on
 * one thread, everything else on any. */
#ifndef PROFD_TESTS_REPLAY_DEVICE_H
#define PROFD_TESTS_REPLAY_DEVICE_H

#include "timeline.h"

#include "../../sim/simcuda.h"

/* Finds the driver and makes ready what the timeline needs: contexts, a kernel, memory, graphs. */
void device_open(const struct timeline *timeline);

/* The calling thread enters and leaves a call of the CUDA runtime. */
void device_enter(const char *name);
void device_leave(int32_t result);

/* Launches what the call launched. `origin`: CLOCK_MONOTONIC ns at which the replay's time was `from`. */
void device_launch(const struct item *call, uint64_t origin, uint64_t from, double speed);

void device_counts(struct simcuda_counts *counts);

#endif
