/* chrome.c - the format: a head, the events of one capture or of several, an end. Several are on one clock, by the wall clocks of their
 * hosts, and each has processes of its own. */
#include "chrome.h"

#include "chrome_head.h"
#include "exporter.h"

#include "client/export/export.h"
#include "client/export/stream.h"
#include "client/ui/figure.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Wall clock ns of a capture's time 0. */
static int64_t base_of(const struct chrome *c)
{
	return figure_time(reader_meta_int(c->reader, "base_realtime", 0));
}

/* One clock for all: the earliest time of any is 0. */
static void settle_origins(struct chrome *const *all, size_t count)
{
	int64_t earliest = base_of(all[0]) + all[0]->origin;
	for (size_t i = 1; i < count; i++) {
		int64_t own = base_of(all[i]) + all[i]->origin;
		earliest = own < earliest ? own : earliest;
	}
	for (size_t i = 0; i < count; i++)
		all[i]->origin = earliest - base_of(all[i]);
}

/* Ranks of containers may have one pid. */
static void settle_processes(struct chrome *const *all, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		for (size_t j = 0; j < i; j++)
			if (all[j]->pid == all[i]->pid) {
				all[i]->pid += CHROME_LANE_STRIDE;
				j = SIZE_MAX; /* once more from the first */
			}
		chrome_settle_place(all[i]);
	}
}

static int put_end(struct exporter *const *exporters, size_t count, struct block *block)
{
	struct buffer *b = &block->text;
	struct exporter_counts all = {0};
	for (size_t i = 0; i < count; i++) {
		struct exporter_counts own = exporter_counts(exporters[i]);
		all.flows_left_out += own.flows_left_out;
		all.projections_left_out += own.projections_left_out;
		all.functions_left_out += own.functions_left_out;
		all.samples_left_out += own.samples_left_out;
		all.timeless += own.timeless;
	}
	BUFFER_PUT(b, "\n  ],\n  \"profdFlowsLeftOut\": ");
	buffer_put_uint(b, all.flows_left_out);
	BUFFER_PUT(b, ",\n  \"profdProjectionsLeftOut\": ");
	buffer_put_uint(b, all.projections_left_out);
	BUFFER_PUT(b, ",\n  \"profdFunctionsLeftOut\": ");
	buffer_put_uint(b, all.functions_left_out);
	BUFFER_PUT(b, ",\n  \"profdSamplesLeftOut\": ");
	buffer_put_uint(b, all.samples_left_out);
	/* Operations whose times CUPTI did not tell: they have no place in a timeline. */
	BUFFER_PUT(b, ",\n  \"profd_timeless\": ");
	buffer_put_uint(b, all.timeless);
	BUFFER_PUT(b, ",\n  \"traceName\": \"profd capture ");
	const char *capture = reader_meta_text(exporter_chrome(exporters[0])->reader, "capture_id");
	if (capture)
		buffer_put_escaped(b, capture, strlen(capture));
	BUFFER_PUT(b, "\"\n}\n");
	return block_flush(block);
}

static int write_trace(struct exporter *const *exporters, struct chrome **all, size_t count, struct stream *stream)
{
	struct block *head = stream_head(stream);
	int error = 0;
	for (size_t i = 0; i < count; i++)
		(all[i] = exporter_chrome(exporters[i]))->several = count > 1;
	if (count > 1)
		settle_origins(all, count);
	settle_processes(all, count);
	chrome_put_head(all, count, &head->text);
	for (size_t i = 0; i < count && !error; i++)
		error = exporter_put(exporters[i], stream);
	return error ? error : put_end(exporters, count, head);
}

static void explain(int error, struct reader *readers, size_t count, char *why, size_t why_bytes)
{
	const struct reader *broken = NULL;
	for (size_t i = 0; i < count; i++)
		broken = bounds_exceeded(readers[i].bounds) ? &readers[i] : broken;
	if (error == -EIO && broken)
		reader_why(broken, why, why_bytes);
	else if (error == -EIO)
		snprintf(why, why_bytes, "the capture file cannot be read: it is damaged, or was cut");
	else if (error && error != -ENOENT)
		snprintf(why, why_bytes, "%s",
			 error == -EFBIG ? "the capture has too many events for this release" : strerror(-error));
}

static int write_shape(struct reader *readers, size_t count, const struct export_options *options,
		       struct stream *stream, enum chrome_shape shape, char *why, size_t why_bytes)
{
	struct exporter **exporters = calloc(count, sizeof(struct exporter *));
	struct chrome **all = calloc(count, sizeof(struct chrome *));
	int error = exporters && all ? 0 : -ENOMEM;
	for (size_t i = 0; i < count && !error; i++) {
		exporters[i] = exporter_new(&readers[i], shape, i);
		error = exporters[i] ? exporter_prepare(exporters[i], options, stream_threads(stream), why, why_bytes)
				     : -ENOMEM;
	}
	if (!error)
		error = write_trace(exporters, all, count, stream);
	explain(error, readers, count, why, why_bytes);
	for (size_t i = 0; exporters && i < count; i++)
		exporter_free(exporters[i]);
	free(exporters);
	free(all);
	return error;
}

export_write chrome_write, chrome_write_tensorboard, chrome_write_critical_path;

int chrome_write(struct reader *readers, size_t count, const struct export_options *options, struct stream *stream,
		 char *why, size_t why_bytes)
{
	return write_shape(readers, count, options, stream, CHROME_PLAIN, why, why_bytes);
}

int chrome_write_tensorboard(struct reader *readers, size_t count, const struct export_options *options,
			     struct stream *stream, char *why, size_t why_bytes)
{
	return write_shape(readers, count, options, stream, CHROME_TENSORBOARD, why, why_bytes);
}

int chrome_write_critical_path(struct reader *readers, size_t count, const struct export_options *options,
			       struct stream *stream, char *why, size_t why_bytes)
{
	return write_shape(readers, count, options, stream, CHROME_CRITICAL_PATH, why, why_bytes);
}
