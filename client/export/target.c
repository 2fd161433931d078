/* target.c - see target.h. */
#include "target.h"

#include "client/ui/failure.h"
#include "client/ui/progress.h"
#include "client/ui/text.h"
#include "estimate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const struct export_options all_of_it;

static const struct export_format *format_of(const char *name, const char *path)
{
	return name ? export_format_find(name) : export_format_by_suffix(path);
}

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

const char *target_refusal(const char *name, const char *path, bool force, size_t count,
			   const struct export_options *options)
{
	static char sentence[1024];
	const struct export_format *format = format_of(name, path);
	const char *refusal;
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
	refusal = export_refusal(format, count, options ? options : &all_of_it, path);
	if (refusal)
		return refusal;
	if (!force && strcmp(path, "-") != 0 && stat(path, &found) == 0 && S_ISREG(found.st_mode)) {
		snprintf(sentence, sizeof sentence, "%.512s exists; choose another name, or overwrite it with --force",
			 path);
		return sentence;
	}
	return NULL;
}

/* What was asked for and is not there is a mistake of the command line. */
static int refuse(int error, const char *why)
{
	return fail(error == -ENOENT ? EXIT_USAGE : EXIT_FAILED, "%s", why);
}

static int estimate_all(struct capture *captures, size_t count, const struct export_format *format, const char *path,
			const struct export_options *options, struct estimate *ret)
{
	char why[FAILURE_TEXT_BYTES] = "";
	int error = 0;

	*ret = (struct estimate){0};
	for (size_t i = 0; i < count && !error; i++)
		error = estimate_add(ret, format, &captures[i].reader, options, path, why, sizeof why);
	return error ? refuse(error, why) : EXIT_DONE;
}

int target_estimate(struct capture *captures, size_t count, const char *name, const char *path,
		    const struct export_options *options)
{
	char bytes[TEXT_FIGURE_BYTES], events[TEXT_FIGURE_BYTES];
	struct estimate estimate;
	int code =
		estimate_all(captures, count, format_of(name, path), path, options ? options : &all_of_it, &estimate);

	if (code)
		return code;
	printf("%s: about %s, %s events; nothing was written\n", path, text_bytes(bytes, estimate.bytes),
	       text_count(events, estimate.events));
	return EXIT_DONE;
}

/* A person who waits sees what for. */
static int announce(struct capture *captures, size_t count, const struct export_format *format, const char *path,
		    const struct export_options *options)
{
	char bytes[TEXT_FIGURE_BYTES], line[640];
	struct estimate estimate;
	int code = estimate_all(captures, count, format, path, options, &estimate);

	if (code)
		return code;
	snprintf(line, sizeof line, "writing %.512s, about %s", path, text_bytes(bytes, estimate.bytes));
	progress_draw(line);
	return EXIT_DONE;
}

int target_write(struct capture *captures, size_t count, const char *name, const char *path, bool force,
		 const struct export_options *options)
{
	const struct export_format *format = format_of(name, path);
	const char *refusal = target_refusal(name, path, force, count, options);
	char why[FAILURE_TEXT_BYTES] = "";
	struct reader *readers;
	int error, code;

	if (refusal)
		return fail(EXIT_USAGE, "%s", refusal);
	options = options ? options : &all_of_it;
	code = progress_live() ? announce(captures, count, format, path, options) : EXIT_DONE;
	if (code)
		return code;
	readers = need(calloc(count, sizeof *readers));
	for (size_t i = 0; i < count; i++)
		readers[i] = captures[i].reader;
	error = export_run(format, readers, count, options, path, why, sizeof why);
	for (size_t i = 0; i < count; i++)
		captures[i].reader = readers[i];
	free(readers);
	if (progress_live())
		progress_clear();
	return error ? refuse(error, why) : EXIT_DONE;
}
