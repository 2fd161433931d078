/* target.c - see target.h. */
#include "target.h"

#include "client/ui/failure.h"
#include "export.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* "chrome (.json, .json.gz), ..." */
static void list_formats(char *text, size_t bytes)
{
	size_t count, n = 0;
	const struct export_format *formats = export_formats(&count);

	for (size_t i = 0; i < count && n < bytes; i++) {
		n += (size_t)snprintf(text + n, bytes - n, "%s%s (%s", i ? ", " : "", formats[i].name,
				      formats[i].suffix);
		if (n < bytes && formats[i].gzip)
			n += (size_t)snprintf(text + n, bytes - n, " %s.gz", formats[i].suffix);
		if (n < bytes)
			n += (size_t)snprintf(text + n, bytes - n, ")");
	}
}

const char *target_refusal(const char *name, const char *path, bool force)
{
	static char sentence[1024];
	static const struct export_options options = {0};
	const struct export_format *format = name ? export_format_find(name) : export_format_by_suffix(path);
	char known[256] = "";
	struct stat found;

	list_formats(known, sizeof known);
	if (!format && name) {
		snprintf(sentence, sizeof sentence, "there is no export format \"%.64s\"; there are: %s", name, known);
		return sentence;
	}
	if (!format) {
		snprintf(sentence, sizeof sentence, "the suffix of %.512s tells no format; end it in one of: %s", path,
			 known);
		return sentence;
	}
	if (export_refusal(format, 1, &options, path))
		return export_refusal(format, 1, &options, path);
	if (!force && strcmp(path, "-") != 0 && stat(path, &found) == 0 && S_ISREG(found.st_mode)) {
		snprintf(sentence, sizeof sentence, "%.512s exists; choose another name, or overwrite it with --force",
			 path);
		return sentence;
	}
	return NULL;
}

int target_write(struct capture *capture, const char *name, const char *path, bool force)
{
	static const struct export_options options = {0};
	const struct export_format *format = name ? export_format_find(name) : export_format_by_suffix(path);
	const char *refusal = target_refusal(name, path, force);
	char why[FAILURE_TEXT_BYTES] = "";

	if (refusal)
		return fail(EXIT_USAGE, "%s", refusal);
	if (export_run(format, &capture->reader, 1, &options, path, why, sizeof why) != 0)
		return fail(EXIT_FAILED, "%s", why);
	return EXIT_DONE;
}
