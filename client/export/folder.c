/* folder.c - see folder.h. */
#include "folder.h"

#include "client/ui/failure.h"
#include "client/ui/json.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool folder_named(const char *output)
{
	struct stat found;

	if (stat(output, &found) == 0)
		return S_ISDIR(found.st_mode);
	return *output && output[strlen(output) - 1] == '/';
}

int folder_possible(const char *output)
{
	char path[PATH_MAX] = ".";
	struct stat found;
	size_t n = strlen(output);

	if (n >= sizeof path)
		return -ENAMETOOLONG;
	/* The nearest one that is there. */
	for (; n > 0; n--) {
		if (output[n] && output[n] != '/')
			continue;
		memcpy(path, output, n);
		path[n] = 0;
		if (stat(path, &found) == 0)
			break;
		if (errno != ENOENT)
			return -errno;
	}
	if (n == 0)
		memcpy(path, *output == '/' ? "/" : ".", 2);
	if (stat(path, &found) == 0 && !S_ISDIR(found.st_mode))
		return -ENOTDIR;
	return access(path, W_OK | X_OK) < 0 ? -errno : 0;
}

int folder_make(const char *output)
{
	char folder[PATH_MAX];
	struct stat found;

	size_t n = strlen(output);
	if (n >= sizeof folder)
		return -ENAMETOOLONG;
	memcpy(folder, output, n + 1);
	for (char *p = folder + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = 0;
		if (mkdir(folder, 0777) < 0 && errno != EEXIST)
			return -errno;
		*p = '/';
	}
	return stat(output, &found) < 0 ? -errno : S_ISDIR(found.st_mode) ? 0 : -ENOTDIR;
}

int folder_refuse(const char *output, int error)
{
	return fail(EXIT_FAILED, "the folder %s cannot be made or written: %s; name another with --output", output,
		    strerror(-error));
}

/* "train_4242.17.pt.trace.json.gz": what torch.profiler's own handler would call it, as far as readers look at names. For
 * TensorBoard "node_4242.1767225600123.pt.trace.json.gz": it takes the number for the time, in ms, and orders by it. */
static void name_file(struct capture *capture, const char *format, char *to, size_t bytes)
{
	const char *name = reader_meta_text(&capture->reader, "name");
	const char *id = reader_meta_text(&capture->reader, "capture_id");
	const char *own = capture->row ? json_text(capture->row, "capture_id") : NULL;

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

void folder_file(const char *output, struct capture *capture, const char *format, char *path, size_t bytes)
{
	bool slash = output && output[strlen(output) - 1] != '/';
	char name[160];

	name_file(capture, format, name, sizeof name);
	snprintf(path, bytes, "%.3800s%s%s", output ? output : "", slash ? "/" : "", name);
}
