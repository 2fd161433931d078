/* cuts.c - see cuts.h. No state. */
#include "cuts.h"

#include <stdio.h>

static const char *const options[CUT_COUNT] = {"step", "range", "phase", "thread", "device", "stream"};

const char *cut_option(unsigned bit)
{
	return options[bit];
}

const char *cuts_text(unsigned cuts, char *to, size_t bytes)
{
	size_t n = 0;

	to[0] = '\0';
	for (unsigned bit = 0; bit < CUT_COUNT && n < bytes; bit++) {
		unsigned rest = cuts >> bit;

		if (rest & 1)
			n += (size_t)snprintf(to + n, bytes - n, "%s--%s",
					      !n	  ? ""
					      : rest == 1 ? " and "
							  : ", ",
					      options[bit]);
	}
	return to;
}
