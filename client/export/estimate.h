/* estimate.h - how large an export will be, before it is written: from how many rows it takes of each table and how long their texts
 * are. Within a factor of two. */
#ifndef PROFD_CLIENT_EXPORT_ESTIMATE_H
#define PROFD_CLIENT_EXPORT_ESTIMATE_H

#include "export.h"

#include <stdint.h>

struct estimate {
	int64_t events; /* rows of the capture that it takes */
	int64_t bytes;	/* of the file, compressed where it will be */
};

/* Adds what this capture brings. 0, or a negative errno with a sentence, as slice_find has it. */
int estimate_add(struct estimate *estimate, const struct export_format *format, const struct reader *r,
		 const struct export_options *options, const char *path, char *why, size_t why_bytes);

#endif
