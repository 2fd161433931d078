/* exporter.h - one capture on its way into a Chrome trace. chrome.c puts one or several of them into a file. */
#ifndef PROFD_CLIENT_EXPORT_CHROME_EXPORTER_H
#define PROFD_CLIENT_EXPORT_CHROME_EXPORTER_H

#include "chrome.h"
#include "client/export/export.h"
#include "client/export/stream.h"

struct exporter;

/* What has no place in a trace. */
struct exporter_counts {
	uint64_t flows_left_out, projections_left_out, functions_left_out, samples_left_out, timeless;
};

/* index: the capture's place in the file, from 0. NULL: no memory. */
struct exporter *exporter_new(struct reader *r, enum chrome_shape shape, size_t index);
/* Finds out all that must be known before the first event. 0 or a negative errno; a sentence where a part was asked for that is not
 * there, else `why` is left alone. */
int exporter_prepare(struct exporter *e, const struct export_options *options, unsigned threads, char *why,
		     size_t why_bytes);
/* Then its number of the process and what its times count from may still be changed. */
struct chrome *exporter_chrome(struct exporter *e);
/* All events: those that name the tracks come first. 0 or a negative errno. */
int exporter_put(struct exporter *e, struct stream *stream);
struct exporter_counts exporter_counts(const struct exporter *e);
void exporter_free(struct exporter *e);

#endif
