/* export.c - the table of formats, and the frame in which each runs. */
#include "export.h"

#include "stream.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define FORMAT(name, write, ...) export_write write;
#include "formats.def"

static const struct export_format formats[] = {
#define FORMAT(name, write, suffix, file, gzip, abilities, sentence) {name, suffix, file, gzip, abilities, write},
#include "formats.def"
};

const struct export_format *export_formats(size_t *ret_count)
{
	*ret_count = sizeof formats / sizeof *formats;
	return formats;
}

const struct export_format *export_format_find(const char *name)
{
	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
		if (strcmp(formats[i].name, name) == 0)
			return &formats[i];
	return NULL;
}

static bool ends_in(const char *path, size_t length, const char *suffix)
{
	size_t n = strlen(suffix);

	return length >= n && memcmp(path + length - n, suffix, n) == 0;
}

const struct export_format *export_format_by_suffix(const char *path)
{
	size_t whole = strlen(path);
	bool packed = ends_in(path, whole, ".gz");

	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
		/* A name that is a suffix alone has none. */
		size_t length = packed && formats[i].gzip ? whole - 3 : whole;

		if (length > strlen(formats[i].suffix) && ends_in(path, length, formats[i].suffix))
			return &formats[i];
	}
	return NULL;
}

bool export_is_packed(const struct export_options *options, const char *path)
{
	if (options->compression == EXPORT_COMPRESSION_BY_SUFFIX)
		return strlen(path) > 3 && ends_in(path, strlen(path), ".gz");
	return options->compression == EXPORT_COMPRESSION_GZIP;
}

const char *export_refusal(const struct export_format *format, size_t count, const struct export_options *options,
			   const char *path)
{
	const struct {
		bool wanted;
		unsigned ability;
		const char *what;
	} wishes[] = {
		{count != 1, EXPORT_SEVERAL, "one capture a file"},
		{options->first_step || options->last_step, EXPORT_PART, "all steps of a capture"},
		{options->begin || options->end || options->range, EXPORT_PART, "the whole time of a capture"},
		{options->device_count, EXPORT_PART, "all devices of a capture"},
		{options->metric, EXPORT_METRIC, "all times of a capture: --metric is of the format folded"},
	};
	static char sentence[400];

	for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++) {
		if (!wishes[i].wanted || format->abilities & wishes[i].ability)
			continue;
		snprintf(sentence, sizeof sentence, "the format %s holds %s", format->name, wishes[i].what);
		return sentence;
	}
	if (!format->gzip && export_is_packed(options, path)) {
		snprintf(sentence, sizeof sentence, "files of the format %s are not compressed; leave out .gz",
			 format->name);
		return sentence;
	}
	return NULL;
}

int export_run(const struct export_format *format, struct reader *readers, size_t count,
	       const struct export_options *options, const char *path, char *why, size_t why_bytes)
{
	const char *refusal = export_refusal(format, count, options, path);
	if (refusal) {
		snprintf(why, why_bytes, "%s", refusal);
		return -ENOTSUP;
	}
	struct stream *stream;
	int error = stream_open(&stream, path, export_is_packed(options, path), options->threads, why, why_bytes);
	if (error)
		return error;
	snprintf(why, why_bytes, "out of memory");
	error = format->write(readers, count, options, stream, why, why_bytes);
	/* An error of the file itself gives the better sentence: the user can do something about it. */
	char file_why[512];
	int closed = stream_close(stream, error == 0, file_why, sizeof file_why);
	if (closed) {
		snprintf(why, why_bytes, "%s", file_why);
		return closed;
	}
	return error;
}
