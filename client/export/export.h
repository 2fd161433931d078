/* export.h - the formats in which captures can be written to a file (formats.def). stream.h is what a format writes to,
 * buffer.h what it writes with.
 *
 * export_run returns when all threads that it started have ended. */
#ifndef PROFD_CLIENT_EXPORT_EXPORT_H
#define PROFD_CLIENT_EXPORT_EXPORT_H

#include "client/reader/reader.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stream;

enum export_compression {
	EXPORT_COMPRESSION_BY_SUFFIX = 0, /* gzip where the path ends in .gz; standard output: none */
	EXPORT_COMPRESSION_NONE,
	EXPORT_COMPRESSION_GZIP,
};

/* What stacks are weighted by, in torch.profiler's words. */
enum export_metric {
	EXPORT_METRIC_USUAL = 0, /* EXPORT_METRIC_HOST, and nobody has said so */
	EXPORT_METRIC_HOST,	 /* time in which the stack was sampled */
	EXPORT_METRIC_DEVICE,	 /* device time of what operators launched that were called there */
};

/* All zero is the default: everything. */
struct export_options {
	enum export_compression compression;
	unsigned threads; /* that read, format and compress; 0 = as many as there are processors, at most 4 */
	int64_t first_step, last_step; /* places in the capture, or the process's own numbers; 0 = all */
	int64_t begin, end;	       /* ns from the beginning of the recording; both 0 = all */
	const char *range;	       /* only while ranges or operators of this name (a GLOB) were open; NULL = all */
	const uint32_t *devices;       /* only what these did */
	size_t device_count;	       /* 0 = all */
	enum export_metric metric;
};

/* What a format can do besides one whole capture. */
enum export_ability {
	EXPORT_SEVERAL = 1,  /* captures in one file */
	EXPORT_PART = 2,     /* steps, times, ranges and devices that are chosen (slice.h) */
	EXPORT_TABLES = 4,   /* it is no text but tables: for the estimate of its size */
	EXPORT_BLOCKS = 8,   /* it has blocks of allocators alone: likewise */
	EXPORT_PYTHON = 16,  /* it has calls of functions of Python: likewise */
	EXPORT_METRIC = 32,  /* a metric that is chosen */
	EXPORT_SAMPLES = 64, /* it has samples of stacks of Python: for the estimate of its size */
};

/* Writes `count` captures into the stream. 0, or a negative errno with a sentence in `why`; what goes wrong with the
 * file itself is stream_close's to tell. */
typedef int export_write(struct reader *readers, size_t count, const struct export_options *options,
			 struct stream *stream, char *why, size_t why_bytes);

struct export_format {
	const char *name;
	const char *suffix;
	const char *file;
	bool gzip;
	unsigned abilities;
	export_write *write;
};

/* The table of formats. */
const struct export_format *export_formats(size_t *ret_count);
/* NULL where there is none of this name. */
const struct export_format *export_format_find(const char *name);
/* The format that a path's suffix asks for; NULL where no format has it. */
const struct export_format *export_format_by_suffix(const char *path);
/* Is the file compressed, by the options and by its suffix? */
bool export_is_packed(const struct export_options *options, const char *path);
/* What the format cannot do of all this: NULL, or a sentence (in a static buffer). */
const char *export_refusal(const struct export_format *format, size_t count, const struct export_options *options,
			   const char *path);

/* Writes captures to `path`, "-" being standard output. A file appears whole or not at all: it is written as PATH.tmp
 * in the same folder, which is removed on any error, and renamed. 0, or a negative errno with a sentence in `why`:
 * -ENOTSUP where the format cannot do what is asked. */
int export_run(const struct export_format *format, struct reader *readers, size_t count,
	       const struct export_options *options, const char *path, char *why, size_t why_bytes);

#endif
