/* glob.c - see glob.h. */
#include "glob.h"

int glob_match(const char *glob, const char *name, size_t bytes)
{
	if (!*glob)
		return 0;
	const char *end = name + bytes, *star = NULL, *retry = NULL;
	while (name < end) {
		if (*glob == '*') {
			star = glob++;
			retry = name;
		} else if (*glob && (*glob == '?' || *glob == *name)) {
			glob++;
			name++;
		} else if (star) {
			glob = star + 1;
			name = ++retry;
		} else {
			return 0;
		}
	}
	while (*glob == '*')
		glob++;
	return !*glob;
}
