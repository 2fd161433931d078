/* driver.h - the machine's CUDA driver and GPUs. */
#ifndef PROFD_CLIENT_DOCTOR_DRIVER_H
#define PROFD_CLIENT_DOCTOR_DRIVER_H

#include "client/ui/table.h"

/* Adds rows about CUDA: its driver, the GPUs, and variables that get in the way of tracing. */
void inspect_cuda(struct table *checks);

#endif
