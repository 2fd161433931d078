/* facts.c - see facts.h. */
#include "facts.h"

#include "client/ui/text.h"

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

/* The first line of a file of /proc for which `is_it` is true, to be freed. */
static char *find_line(int64_t pid, const char *name, bool (*is_it)(const char *line, const char *what),
		       const char *what)
{
	char path[64], *line = NULL;
	size_t room = 0;
	bool found = false;
	FILE *file;

	snprintf(path, sizeof path, "/proc/%lld/%s", (long long)pid, name);
	file = fopen(path, "re");
	while (file && !found && getline(&line, &room, file) > 0)
		found = is_it(line, what);
	if (file)
		fclose(file);
	if (found)
		return line;
	free(line);
	return NULL;
}

static bool has_key(const char *line, const char *key)
{
	size_t n = strlen(key);

	return strncmp(line, key, n) == 0 && line[n] == ':';
}

bool process_status(int64_t pid, const char *key, char *to, size_t bytes)
{
	char *line = find_line(pid, "status", has_key, key), *at;

	if (!line)
		return false;
	line[strcspn(line, "\n")] = 0;
	at = line + strlen(key) + 1;
	snprintf(to, bytes, "%s", at + strspn(at, " \t"));
	free(line);
	return true;
}

static bool has_path(const char *line, const char *part)
{
	const char *path = strchr(line, '/');

	return path && strstr(path, part);
}

bool process_maps(int64_t pid, const char *part)
{
	char *line = find_line(pid, "maps", has_path, part);
	bool found = line != NULL;

	free(line);
	return found;
}
