/* export.c - the table of formats, and the frame in which each runs. */
#include "export.h"

#include "client/export/chrome/chrome.h"
#include "stream.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct export_format formats[] = {
	{"chrome", ".json .json.gz",
	 "Chrome trace events, as torch.profiler writes them: Perfetto, chrome://tracing, HTA", chrome_write},
	{"tensorboard", ".pt.trace.json .pt.trace.json.gz",
	 "the same, with the names that TensorBoard's plugin torch_tb_profiler knows", chrome_write_tensorboard},
	{"critical-path", ".json .json.gz",
	 "the same, with waits as HolisticTraceAnalysis's critical path analysis wants them",
	 chrome_write_critical_path},
};

const struct export_format *export_formats(size_t *ret_count)
{
	*ret_count = sizeof formats / sizeof *formats;
	return formats;
}

const char *export_format_by_suffix(const char *path)
{
	size_t length = strlen(path);
	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
		for (const char *suffix = formats[i].suffixes; *suffix;) {
			size_t n = strcspn(suffix, " ");
			if (length > n && memcmp(path + length - n, suffix, n) == 0)
				return formats[i].name;
			suffix += n + (suffix[n] == ' ');
		}
	return NULL;
}

static const struct export_format *find_format(const char *name)
{
	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
		if (strcmp(formats[i].name, name) == 0)
			return &formats[i];
	return NULL;
}

int export_run(struct reader *r, const char *format, const char *output_path, const struct export_options *options,
	       char *why, size_t why_bytes)
{
	const struct export_format *found = find_format(format);
	if (!found) {
		snprintf(why, why_bytes, "there is no format \"%s\"", format);
		return EXPORT_NO_SUCH_FORMAT;
	}
	size_t length = strlen(output_path);
	bool gzip = options->compression == EXPORT_COMPRESSION_GZIP ||
		    (options->compression == EXPORT_COMPRESSION_BY_SUFFIX && length > 3 &&
		     strcmp(output_path + length - 3, ".gz") == 0);
	struct stream *stream;
	int error = stream_open(&stream, output_path, gzip, options->threads, why, why_bytes);
	if (error)
		return error;
	snprintf(why, why_bytes, "out of memory");
	error = found->write(r, stream, why, why_bytes);
	/* What went wrong with the file itself is the better sentence: it is what the user can do something about. */
	char file_why[512];
	int closed = stream_close(stream, error == 0, file_why, sizeof file_why);
	if (closed) {
		snprintf(why, why_bytes, "%s", file_why);
		return closed;
	}
	return error;
}
