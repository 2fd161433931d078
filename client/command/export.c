/* export.c - `profd export`: captures as a file for other programs. */
#include "export_part.h"

#include "client/export/export.h"
#include "client/export/folder.h"
#include "client/export/target.h"
#include "client/reader/capture.h"
#include "client/ui/failure.h"
#include "client/ui/text.h"
#include "client/verbs/arguments.h"
#include "client/verbs/commands.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct export_run {
	const char *format, *output;
	bool force, dry;
	struct export_options options;
	struct capture *captures;
	size_t count;
};

/* With the captures open. */
static int write_captures(struct export_run *run)
{
	char path[PATH_MAX];
	const char *output = run->output;
	bool into_folder = output && folder_named(output);
	/* The folder is made, as torch's handlers for traces do it, but only when there is a file to put into it. */
	int error = into_folder && !run->dry ? folder_make(output) : 0;
	if (error)
		return folder_refuse(output, error);
	if (!output || into_folder) {
		folder_file(output, &run->captures[0], run->format, path, sizeof path);
		output = path;
	}
	if (run->dry) {
		const char *refusal = target_refusal(run->format, output, true, run->count, &run->options);
		return refusal ? fail(EXIT_USAGE, "%s", refusal)
			       : target_estimate(run->captures, run->count, run->format, output, &run->options);
	}
	int code = target_write(run->captures, run->count, run->format, output, run->force, &run->options);
	/* The path is printed, unless the trace itself goes to standard output. */
	if (code == EXIT_DONE && strcmp(output, "-") != 0)
		printf("%s\n", output);
	return code;
}

static int open_captures(struct export_run *run, char **words, size_t count)
{
	int code = EXIT_DONE;
	run->captures = need(calloc(count ? count : 1, sizeof *run->captures));
	for (size_t i = 0; i < (count ? count : 1) && code == EXIT_DONE; i++) {
		code = capture_open(count ? words[i] : NULL, &run->captures[i]);
		run->count += code == EXIT_DONE;
	}
	return code;
}

static enum export_metric metric_of(const struct arguments *arguments)
{
	const char *word = arguments_text(arguments, "metric", NULL);
	if (!word)
		return EXPORT_METRIC_USUAL;
	return strcmp(word, "self_cpu_time_total") == 0 ? EXPORT_METRIC_HOST : EXPORT_METRIC_DEVICE;
}

int command_export(struct arguments *arguments)
{
	uint32_t devices[EXPORT_PART_DEVICES];
	struct export_run run = {
		.format = arguments_text(arguments, "format", NULL),
		.output = arguments_text(arguments, "output", NULL),
		.force = arguments_has(arguments, "force"),
		.dry = arguments_has(arguments, "dry-run"),
		.options.metric = metric_of(arguments),
	};
	size_t wanted = arguments->word_count ? arguments->word_count : 1;
	int code = export_part(arguments, &run.options, devices);
	if (code)
		return code;
	if (run.output && strcmp(run.output, "-") == 0) {
		if (!run.format)
			run.format = export_formats(&(size_t){0})->name;
		if (isatty(STDOUT_FILENO) && !run.dry)
			return fail(EXIT_USAGE,
				    "export: a trace is not for a terminal; name a file with --output, or pipe it on");
	}
	if (run.output && !folder_named(run.output)) {
		const char *refusal =
			target_refusal(run.format, run.output, run.force || run.dry, wanted, &run.options);
		if (refusal)
			return fail(EXIT_USAGE, "%s", refusal);
	}
	code = open_captures(&run, arguments->words, arguments->word_count);
	if (code == EXIT_DONE)
		code = write_captures(&run);
	for (size_t i = 0; i < run.count; i++)
		capture_close(&run.captures[i]);
	free(run.captures);
	return code;
}
