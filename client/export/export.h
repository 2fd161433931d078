/* export.h - the formats in which a capture can be written to a file. "Start here" for a new one: a file <format>.c with
 * one function of type export_write, and a row in export.c's table. stream.h is what it writes to, buffer.h what it
 * writes with, names.h and inputs.h what it looks up.
 *
 * export_run returns when all threads that it started have ended. */
#ifndef PROFD_CLIENT_EXPORT_EXPORT_H
#define PROFD_CLIENT_EXPORT_EXPORT_H

#include "client/reader/reader.h"

#include <stddef.h>

struct stream;

enum export_compression {
	EXPORT_COMPRESSION_BY_SUFFIX = 0, /* gzip where the path ends in .gz; standard output: none */
	EXPORT_COMPRESSION_NONE,
	EXPORT_COMPRESSION_GZIP,
};

/* All zero is the default. */
struct export_options {
	enum export_compression compression;
	unsigned threads; /* that read, format and compress; 0 = as many as there are processors, at most 4 */
};

/* Writes the whole capture into the stream. 0 or a negative errno with a sentence in `why`; what goes wrong with the file
 * itself is stream_close's to tell. */
typedef int (*export_write)(struct reader *r, struct stream *stream, char *why, size_t why_bytes);

struct export_format {
	const char *name;
	const char *suffixes; /* in the order of preference, blanks between: ".json .json.gz" */
	const char *description;
	export_write write;
};

/* The table, for help and completion. */
const struct export_format *export_formats(size_t *ret_count);
/* Name of the format that a path's suffix asks for; NULL where no format has it. */
const char *export_format_by_suffix(const char *path);

/* Positive results of export_run: conditions that the caller tells the user in its own words, too. */
enum { EXPORT_NO_SUCH_FORMAT = 1 };

/* Writes the capture as `format` to `output_path`, "-" being standard output. A file appears whole or not at all: it is
 * written as PATH.tmp in the same folder, which is removed on any error, and renamed. 0, a negative errno, or EXPORT_NO_SUCH_FORMAT; `why` has a sentence where it is not 0. */
int export_run(struct reader *r, const char *format, const char *output_path, const struct export_options *options,
	       char *why, size_t why_bytes);

#endif
