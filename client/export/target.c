/* target.c - see target.h. */
#include "target.h"

#include "client/ui/failure.h"
#include "export.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

const char *target_refusal(const char *format, const char *path, bool force)
{
	static char sentence[1024];
	char known[256] = "";
	size_t count, n = 0;
	const struct export_format *formats = export_formats(&count);
	struct stat found;

	for (size_t i = 0; i < count && n < sizeof known; i++)
		n += (size_t)snprintf(known + n, sizeof known - n, "%s%s (%s)", i ? ", " : "", formats[i].name,
				      formats[i].suffixes);
	if (format) {
		size_t i = 0;

		while (i < count && strcmp(formats[i].name, format) != 0)
			i++;
		if (i == count) {
			snprintf(sentence, sizeof sentence, "there is no export format \"%.64s\"; there are: %s",
				 format, known);
			return sentence;
		}
	} else if (!export_format_by_suffix(path)) {
		snprintf(sentence, sizeof sentence, "the suffix of %.512s tells no format; end it in one of: %s", path,
			 known);
		return sentence;
	}
	if (!force && strcmp(path, "-") != 0 && stat(path, &found) == 0 && S_ISREG(found.st_mode)) {
		snprintf(sentence, sizeof sentence, "%.512s exists; choose another name, or overwrite it with --force",
			 path);
		return sentence;
	}
	return NULL;
}

int target_write(struct capture *capture, const char *format, const char *path, bool force)
{
	const struct export_options options = {0};
	const char *refusal = target_refusal(format, path, force);
	char why[FAILURE_TEXT_BYTES] = "";

	if (refusal)
		return fail(EXIT_USAGE, "%s", refusal);
	if (!format)
		format = export_format_by_suffix(path);
	if (export_run(&capture->reader, format, path, &options, why, sizeof why) != 0)
		return fail(EXIT_FAILED, "%s", why);
	return EXIT_DONE;
}
