/* slice.h - the part of a capture that an export holds: of some steps, ranges, times, devices. Made once; then only looked at, by any
 * thread.
 *
 * It takes everything of the host that reaches into the times. Of a device it takes what reaches into them, and what
 * was launched by a call that reaches into them. */
#ifndef PROFD_CLIENT_EXPORT_SLICE_H
#define PROFD_CLIENT_EXPORT_SLICE_H

#include "client/reader/reader.h"
#include "export.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ns since the capture's base, half-open. */
struct slice_span {
	int64_t start, end;
};

struct slice {
	bool timed;		  /* else: all of the time */
	struct slice_span *spans; /* sorted, apart */
	size_t count;
	const uint32_t *devices; /* the options' */
	size_t device_count;	 /* 0: all of them */
};

/* 0, or a negative errno with a sentence: -ENOENT where the capture has no such step, range or time. slice_deinit in either case. */
int slice_find(struct slice *slice, const struct reader *r, const struct export_options *options, char *why,
	       size_t why_bytes);
void slice_deinit(struct slice *slice);

/* Does it reach into the slice? Of no length: does it lie in it? */
bool slice_time(const struct slice *slice, int64_t start, int64_t duration);
bool slice_device(const struct slice *slice, uint32_t device);
/* An operation of a device. call_duration -1: its call is not known. */
bool slice_operation(const struct slice *slice, uint32_t device, int64_t start, int64_t duration, int64_t call_start,
		     int64_t call_duration);

/* Makes profd_part(START, DURATION) and profd_device_part(DEVICE) known to queries on this connection: 0 or 1. The slice must outlive
 * them. 0 or -EIO. */
int slice_register(const struct slice *slice, const struct reader *r);
void slice_unregister(const struct reader *r);

#endif
