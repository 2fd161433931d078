/* export.c - `profd export`: a capture as a file for other programs. */
#include "../capture.h"
#include "../command.h"
#include "../text.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* "train_4242.17.pt.trace.json.gz": what torch.profiler's own handler would call it, as far as readers look at names. For
 * TensorBoard "node_4242.1767225600123.pt.trace.json.gz": it takes the number for the time, in ms, and orders by it. */
static void default_name(struct capture *capture, const char *format, char *to, size_t bytes)
{
	const char *name = reader_meta_text(&capture->reader, "name");
	const char *id = reader_meta_text(&capture->reader, "capture_id");
	const char *own = capture->row ? reply_text(capture->row, "capture_id") : NULL;

	if (format && strcmp(format, "tensorboard") == 0) {
		const char *host = reader_meta_text(&capture->reader, "host");

		snprintf(to, bytes, "%.64s_%lld.%lld.pt.trace.json.gz", host && *host ? host : "host",
			 (long long)reader_meta_int(&capture->reader, "pid", 0),
			 (long long)reader_meta_int(&capture->reader, "base_realtime", 0) / 1000000);
	} else {
		snprintf(to, bytes, "%.64s_%lld.%.32s.pt.trace.json.gz", name && *name ? name : "process",
			 (long long)reader_meta_int(&capture->reader, "pid", 0),
			 own  ? own
			 : id ? id
			      : "0");
	}
	for (char *p = to; *p; p++)
		if (!(*p >= 'a' && *p <= 'z') && !(*p >= 'A' && *p <= 'Z') && !(*p >= '0' && *p <= '9') && *p != '.' &&
		    *p != '_' && *p != '-')
			*p = '_';
}

int command_export(struct arguments *arguments)
{
	const char *output = arguments_text(arguments, "output", NULL);
	const char *format = arguments_text(arguments, "format", NULL);
	bool force = arguments_has(arguments, "force");
	const char *refusal;
	char path[PATH_MAX], name[160];
	struct capture capture;
	struct stat folder;
	bool into_folder = output && stat(output, &folder) == 0 && S_ISDIR(folder.st_mode);
	int code;

	if (output && strcmp(output, "-") == 0) {
		if (!format)
			format = "chrome";
		if (isatty(STDOUT_FILENO))
			return fail(EXIT_USAGE,
				    "export: a trace is not for a terminal; name a file with --output, or pipe it on");
	}
	if (output && !into_folder) {
		refusal = capture_export_refusal(format, output, force);
		if (refusal)
			return fail(EXIT_USAGE, "%s", refusal);
	}
	code = capture_open(arguments->words[0], &capture);
	if (code)
		return code;
	if (!output || into_folder) {
		default_name(&capture, format, name, sizeof name);
		bool slash = output && output[strlen(output) - 1] != '/';

		snprintf(path, sizeof path, "%.3800s%s%s", output ? output : "", slash ? "/" : "", name);
		output = path;
	}
	code = capture_export(&capture, format, output, force);
	/* The path is the answer, but not where the trace itself goes to standard output. */
	if (code == EXIT_DONE && strcmp(output, "-") != 0)
		printf("%s\n", output);
	capture_close(&capture);
	return code;
}
