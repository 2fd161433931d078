/* figure.c - see figure.h. */
#include "figure.h"

#include <inttypes.h>
#include <stdio.h>

void figure(char *text, size_t bytes, enum figure_unit unit, int64_t value)
{
	static const struct step {
		enum figure_unit unit;
		int64_t size;
		const char *name;
	} steps[] = {
		{FIGURE_DURATION, 86400000000000, "d"}, {FIGURE_DURATION, 3600000000000, "h"},
		{FIGURE_DURATION, 60000000000, "m"},	{FIGURE_DURATION, 1000000000, "s"},
		{FIGURE_DURATION, 1000000, "ms"},	{FIGURE_DURATION, 1000, "us"},
		{FIGURE_BYTES, (int64_t)1 << 40, "T"},	{FIGURE_BYTES, 1 << 30, "G"},
		{FIGURE_BYTES, 1 << 20, "M"},		{FIGURE_BYTES, 1 << 10, "K"},
	};

	for (size_t i = 0; value && i < sizeof steps / sizeof *steps; i++) {
		if (steps[i].unit != unit || value % steps[i].size != 0)
			continue;
		snprintf(text, bytes, "%" PRId64 "%s", value / steps[i].size, steps[i].name);
		return;
	}
	snprintf(text, bytes, "%" PRId64, value);
}
