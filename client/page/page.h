/* page.h - a capture as one HTML page that needs nothing else: no network, no file beside it. */
#ifndef PROFD_CLIENT_PAGE_PAGE_H
#define PROFD_CLIENT_PAGE_PAGE_H

#include "client/reader/capture.h"

#include <stdbool.h>
#include <stddef.h>

struct page_options {
	bool redact; /* leaves out paths, commands, host and user */
};

/* Writes PATH (standard output for "-"), whole or not at all; what is there already is replaced. Returns 0, or a negative errno
 * with a sentence in `why`. A file that is not what it says ends the program with a sentence. */
int page_write(struct capture *capture, const struct page_options *options, const char *path, char *why,
	       size_t why_bytes);

#endif
