/* unwinder.h - the process that unwinds: made for one look at one process, with the rights to read and nothing else. */
#ifndef PROFD_CLIENT_NATIVE_UNWINDER_H
#define PROFD_CLIENT_NATIVE_UNWINDER_H

#include "libdw.h"
#include "unwind.h"

/* What it writes: a thread's frames, then one record with its end. */
struct unwind_record {
	uint32_t thread, is_end;
	struct native_frame frame;
	uint32_t whole; /* not 0: yes. No bool: who writes it may have been taken over */
	char reason[160];
};

/* In a child: writes records into `to`, and returns. */
void unwinder(const struct libdw *libdw, int to, int64_t pid, const struct native_maps *maps,
	      const struct process_memory *memory, const struct native_stand *stands, size_t count);

#endif
