/* export.c - `profd export`: a capture as a file for other programs. */
#include "client/export/export.h"
#include "client/export/folder.h"
#include "client/export/target.h"
#include "client/reader/capture.h"
#include "client/ui/failure.h"
#include "client/verbs/arguments.h"
#include "client/verbs/commands.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

int command_export(struct arguments *arguments)
{
	const char *output = arguments_text(arguments, "output", NULL);
	const char *format = arguments_text(arguments, "format", NULL);
	bool force = arguments_has(arguments, "force");
	const char *refusal;
	char path[PATH_MAX];
	struct capture capture;
	bool into_folder = output && folder_named(output);
	int code, error;

	if (output && strcmp(output, "-") == 0) {
		if (!format)
			format = export_formats(&(size_t){0})->name;
		if (isatty(STDOUT_FILENO))
			return fail(EXIT_USAGE,
				    "export: a trace is not for a terminal; name a file with --output, or pipe it on");
	}
	if (output && !into_folder) {
		refusal = target_refusal(format, output, force);
		if (refusal)
			return fail(EXIT_USAGE, "%s", refusal);
	}
	code = capture_open(arguments->words[0], &capture);
	if (code)
		return code;
	/* The folder is made, as torch's handlers for traces do it, but only when there is a file to put into it. */
	error = into_folder ? folder_make(output) : 0;
	if (error) {
		capture_close(&capture);
		return folder_refuse(output, error);
	}
	if (!output || into_folder) {
		folder_file(output, &capture, format, path, sizeof path);
		output = path;
	}
	code = target_write(&capture, format, output, force);
	/* The path is printed, unless the trace itself goes to standard output. */
	if (code == EXIT_DONE && strcmp(output, "-") != 0)
		printf("%s\n", output);
	capture_close(&capture);
	return code;
}
