/* filters.c - see filters.h. Runs in the job's process too. No state. */
#include "filters.h"
#include "small_file.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static int number_after(const char *text, const char *label)
{
	const char *at = strstr(text, label);
	int value = 0;
	if (!at)
		return -ENODATA;
	at += strlen(label);
	while (*at == ' ' || *at == '\t')
		at++;
	for (; *at >= '0' && *at <= '9' && value < 1000000; at++)
		value = value * 10 + (*at - '0');
	return value;
}

static int count_of(const char *status_path, bool living)
{
	/* The line comes behind that of the groups, of which there may be many. */
	char text[16384];
	long n = small_file_read(status_path, text, sizeof text);
	if (n < 0)
		return (int)n;
	if (living && (strstr(text, "\nState:\tZ") || strstr(text, "\nState:\tX")))
		return -ESRCH;
	int count = number_after(text, "\nSeccomp_filters:");
	return count < 0 ? number_after(text, "\nSeccomp:") : count;
}

int filters_of(const char *status_path)
{
	return count_of(status_path, false);
}

int filters_of_living(const char *status_path)
{
	return count_of(status_path, true);
}
