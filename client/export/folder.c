/* folder.c - see folder.h. */
#include "folder.h"

#include "client/ui/failure.h"
#include "client/ui/json.h"
#include "export.h"

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

/* A word in braces of a format's file name. */
static void fill_in(struct capture *capture, const char *word, size_t length, char *to, size_t bytes)
{
	const struct {
		const char *word, *text, *otherwise;
	} texts[] = {
		{"name", reader_meta_text(&capture->reader, "name"), "process"},
		{"host", reader_meta_text(&capture->reader, "host"), "host"},
	};
	const char *id = reader_meta_text(&capture->reader, "capture_id");
	const char *own = capture->row ? json_text(capture->row, "capture_id") : NULL;
	int64_t base = reader_meta_int(&capture->reader, "base_realtime", 0);

	*to = 0;
	if (strncmp(word, "pid", length) == 0)
		snprintf(to, bytes, "%lld", (long long)reader_meta_int(&capture->reader, "pid", 0));
	else if (strncmp(word, "time", length) == 0)
		snprintf(to, bytes, "%lld", (long long)base / 1000000);
	else if (strncmp(word, "capture", length) == 0)
		snprintf(to, bytes, "%.32s", own ? own : id ? id : "0");
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		if (strncmp(word, texts[i].word, length) == 0)
			snprintf(to, bytes, "%.64s",
				 texts[i].text && *texts[i].text ? texts[i].text : texts[i].otherwise);
}

/* The name of a capture's file, in characters that every file system and shell takes. */
static void name_file(struct capture *capture, const char *pattern, char *to, size_t bytes)
{
	size_t n = 0;

	for (const char *at = pattern; *at && n + 1 < bytes; at++) {
		char text[80] = {*at, 0};

		if (*at == '{') {
			size_t length = strcspn(at + 1, "}");

			fill_in(capture, at + 1, length, text, sizeof text);
			at += length + 1;
		}
		n += (size_t)snprintf(to + n, bytes - n, "%s", text);
	}
	for (char *p = to; *p; p++)
		if (!(*p >= 'a' && *p <= 'z') && !(*p >= 'A' && *p <= 'Z') && !(*p >= '0' && *p <= '9') && *p != '.' &&
		    *p != '_' && *p != '-')
			*p = '_';
}

void folder_pattern(const char *output, struct capture *capture, const char *pattern, char *path, size_t bytes)
{
	bool slash = output && output[strlen(output) - 1] != '/';
	char file[160] = "";

	name_file(capture, pattern, file, sizeof file);
	snprintf(path, bytes, "%.3800s%s%s", output ? output : "", slash ? "/" : "", file);
}

void folder_file(const char *output, struct capture *capture, const char *name, char *path, size_t bytes)
{
	const struct export_format *format = name ? export_format_find(name) : export_formats(&(size_t){0});

	folder_pattern(output, capture, format->file, path, bytes);
}
