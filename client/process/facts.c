/* facts.c - see facts.h. */
#include "facts.h"

#include "client/ui/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STAT_BYTES 2048

char *process_file(int64_t pid, const char *name, size_t most, size_t *bytes)
{
	char path[64], *to;
	ssize_t n = 0;
	int fd;

	snprintf(path, sizeof path, "/proc/%lld/%s", (long long)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	to = need(malloc(most + 1));
	for (*bytes = 0; *bytes < most && (n = read(fd, to + *bytes, most - *bytes)) > 0;)
		*bytes += (size_t)n;
	close(fd);
	to[*bytes] = 0;
	if (n >= 0)
		return to;
	free(to);
	return NULL;
}

uint64_t process_number(int64_t pid, enum process_field field)
{
	size_t bytes;
	char *text = process_file(pid, "stat", STAT_BYTES, &bytes), *at;
	uint64_t number;

	/* The name may hold anything: the fields are counted from behind it. */
	at = text ? strrchr(text, ')') : NULL;
	for (int i = 2; at && i < (int)field; i++)
		at = strchr(at + 1, ' ');
	number = at ? strtoull(at, NULL, 10) : 0;
	free(text);
	return number;
}

void process_command(int64_t pid, char *to, size_t bytes)
{
	size_t n;
	char *text = process_file(pid, "cmdline", bytes - 1, &n);

	to[0] = 0;
	if (!text)
		return;
	while (n && !text[n - 1])
		n--;
	for (size_t i = 0; i < n; i++)
		to[i] = text[i] ? text[i] : ' ';
	to[n] = 0;
	free(text);
}

int process_lines(int64_t pid, const char *name, bool (*take)(void *context, char *line), void *context)
{
	char path[64], *line = NULL;
	size_t room = 0;
	bool on = true;
	FILE *file;

	snprintf(path, sizeof path, "/proc/%lld/%s", (long long)pid, name);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	while (on && getline(&line, &room, file) > 0) {
		line[strcspn(line, "\n")] = 0;
		on = take(context, line);
	}
	free(line);
	fclose(file);
	return 0;
}

/* A line that is looked for. */
struct wanted {
	const char *what;
	bool found;
	char *to;
	size_t bytes;
};

static bool take_status(void *context, char *line)
{
	struct wanted *wanted = context;
	size_t n = strlen(wanted->what);

	wanted->found = strncmp(line, wanted->what, n) == 0 && line[n] == ':';
	if (wanted->found)
		snprintf(wanted->to, wanted->bytes, "%s", line + n + 1 + strspn(line + n + 1, " \t"));
	return !wanted->found;
}

bool process_status(int64_t pid, const char *key, char *to, size_t bytes)
{
	struct wanted wanted = {.what = key, .to = to, .bytes = bytes};

	process_lines(pid, "status", take_status, &wanted);
	return wanted.found;
}

static bool take_path(void *context, char *line)
{
	struct wanted *wanted = context;
	const char *path = strchr(line, '/');

	wanted->found = path && strstr(path, wanted->what);
	return !wanted->found;
}

bool process_maps(int64_t pid, const char *part)
{
	struct wanted wanted = {.what = part};

	process_lines(pid, "maps", take_path, &wanted);
	return wanted.found;
}
