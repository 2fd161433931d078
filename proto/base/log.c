/* log.c - see log.h. */
#include "log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Atomic int log_is_verbose;

/* Is standard error connected to the journal? systemd tells this by JOURNAL_STREAM (systemd.exec(5)), and the journal
 * reads priorities. */
static bool is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat facts;
	return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 && fstat(STDERR_FILENO, &facts) == 0 &&
	       facts.st_dev == device && facts.st_ino == inode;
}

static void put(const char *priority, const char *format, va_list arguments)
{
	int saved = errno;
	char line[1024];
	size_t at = (size_t)snprintf(line, sizeof line, "%sprofd-daemon: ", *priority && is_journal() ? priority : "");
	int n = vsnprintf(line + at, sizeof line - at - 1, format, arguments);
	size_t begin = at;
	if (n > 0)
		at += (size_t)n < sizeof line - at - 1 ? (size_t)n : sizeof line - at - 2;
	/* What a peer has said is in it: one line stays one line. */
	for (size_t i = begin; i < at; i++)
		if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
			line[i] = '?';
	line[at++] = '\n';
	/* A log that cannot be written has nowhere to say so. */
	ssize_t written = write(STDERR_FILENO, line, at);
	(void)written;
	errno = saved;
}

void log_line(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	put("", format, arguments);
	va_end(arguments);
}

void log_notice(const char *format, ...)
{
	va_list arguments;
	if (!log_is_verbose && isatty(STDERR_FILENO))
		return;
	va_start(arguments, format);
	put("<5>", format, arguments);
	va_end(arguments);
}

void log_verbose(const char *format, ...)
{
	if (!log_is_verbose)
		return;
	va_list arguments;
	va_start(arguments, format);
	put("", format, arguments);
	va_end(arguments);
}
