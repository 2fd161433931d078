/* load_device.h - reads the devices' side of a capture for its breakdown: operations, and the calls that launched them. */
#ifndef PROFD_STORE_BREAKDOWN_LOAD_DEVICE_H
#define PROFD_STORE_BREAKDOWN_LOAD_DEVICE_H

#include "load.h"
#include "meanings.h"

/* Counts that show whether the records are complete. */
struct device_evidence {
	bool graphs;	      /* there are operations of CUDA graphs */
	int64_t kernel_calls; /* calls that launch kernels */
	int64_t bare_calls;   /* of these, calls of which no kernel was recorded */
};

/* Reads into the capture's operations, calls and activity. Its steps are there already. Errors: scan->error. */
void device_load(struct scan *scan, const struct meanings *meanings, struct breakdown_capture *capture,
		 struct device_evidence *ret);

#endif
