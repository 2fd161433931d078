/* quantity.c - see quantity.h. Pure functions. */
#include "quantity.h"

#include <string.h>

bool quantity_number(const char *text, int64_t *ret)
{
	int64_t value = 0;

	if (!*text)
		return false;
	for (; *text; text++) {
		if (*text < '0' || *text > '9' || __builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (int64_t)(*text - '0'), &value))
			return false;
	}
	*ret = value;
	return true;
}

/* Digits with at most one point, without the locale's opinion. Moves *at behind them. */
static bool decimal(const char **at, double *ret)
{
	const char *p = *at;
	double value = 0, weight = 1;
	bool digits = false, point = false;

	for (; (*p >= '0' && *p <= '9') || (*p == '.' && !point); p++) {
		if (*p == '.') {
			point = true;
			continue;
		}
		digits = true;
		value = value * 10 + (*p - '0');
		if (point)
			weight *= 10;
	}
	*at = p;
	*ret = value / weight;
	return digits;
}

bool quantity_duration(const char *text, int64_t *ret_ns)
{
	/* Longer names first: "ms" is not a minute. */
	static const struct {
		const char *unit;
		double ns;
	} units[] = {{"ns", 1},	     {"us", 1e3},   {"ms", 1e6}, {"min", 60e9},
		     {"d", 86400e9}, {"h", 3600e9}, {"m", 60e9}, {"s", 1e9}};
	double total = 0;

	if (strcmp(text, "0") == 0) {
		*ret_ns = 0;
		return true;
	}
	if (!*text)
		return false;
	while (*text) {
		double value;
		size_t i;

		if (!decimal(&text, &value))
			return false;
		for (i = 0; i < sizeof units / sizeof *units; i++)
			if (strncmp(text, units[i].unit, strlen(units[i].unit)) == 0)
				break;
		if (i == sizeof units / sizeof *units)
			return false;
		text += strlen(units[i].unit);
		total += value * units[i].ns;
	}
	if (total > 9e18)
		return false;
	*ret_ns = (int64_t)(total + 0.5);
	return true;
}

bool quantity_size(const char *text, int64_t *ret_bytes)
{
	static const char units[] = "kKmMgGtT";
	double value;

	if (!decimal(&text, &value))
		return false;
	if (*text) {
		const char *unit = strchr(units, *text);

		if (*text != 'B') {
			if (!unit)
				return false;
			for (ptrdiff_t i = 0; i <= (unit - units) / 2; i++)
				value *= 1024;
			text++;
		}
		if (*text == 'i')
			text++;
		if (*text == 'B')
			text++;
		if (*text)
			return false;
	}
	if (value > 9e18)
		return false;
	*ret_bytes = (int64_t)value;
	return true;
}

unsigned word_distance(const char *a, const char *b, unsigned limit)
{
	unsigned row[64];
	size_t n = strlen(b);

	if (n + 1 > sizeof row / sizeof *row || strlen(a) > 64)
		return limit + 1;
	for (unsigned j = 0; j <= n; j++)
		row[j] = j;
	for (unsigned i = 1; a[i - 1]; i++) {
		unsigned diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= n; j++) {
			unsigned best = diagonal + (a[i - 1] != b[j - 1]);

			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			diagonal = row[j];
			row[j] = best;
		}
	}
	return row[n] > limit ? limit + 1 : row[n];
}
