/* report.c - `profd report`: a capture as a page that can be sent. */
#include "client/export/folder.h"
#include "client/page/page.h"
#include "client/ui/failure.h"
#include "client/verbs/arguments.h"
#include "client/verbs/commands.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int command_report(struct arguments *arguments)
{
	const char *output = arguments_text(arguments, "output", NULL);
	const struct page_options options = {.redact = arguments_has(arguments, "redact")};
	struct capture capture;
	struct stat found;
	char path[PATH_MAX], why[FAILURE_TEXT_BYTES] = "";
	if (output && strcmp(output, "-") == 0 && isatty(STDOUT_FILENO))
		return fail(EXIT_USAGE,
			    "report: a page is not for a terminal; name a file with --output, or pipe it on");
	int code = capture_open(arguments->word_count ? arguments->words[0] : NULL, &capture);
	if (code)
		return code;
	bool into_folder = output && folder_named(output);
	int error = into_folder ? folder_make(output) : 0;
	if (error)
		code = folder_refuse(output, error);
	if (!output || into_folder)
		folder_pattern(output, &capture, "{name}_{pid}.{capture}.html", path, sizeof path);
	else if (snprintf(path, sizeof path, "%s", output) >= (int)sizeof path)
		code = fail(EXIT_USAGE, "report: the name of the file is too long");
	if (code == EXIT_DONE && !arguments_has(arguments, "force") && strcmp(path, "-") != 0 &&
	    stat(path, &found) == 0 && S_ISREG(found.st_mode))
		code = fail(EXIT_USAGE, "%s exists; choose another name, or overwrite it with --force", path);
	if (code == EXIT_DONE && page_write(&capture, &options, path, why, sizeof why) != 0)
		code = fail(EXIT_FAILED, "%s", why);
	if (code == EXIT_DONE && strcmp(path, "-") != 0)
		printf("%s\n", path);
	capture_close(&capture);
	return code;
}
