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

/* A number with a unit is counted exactly, in these parts of the unit. A smaller part is less than a nanosecond, even
 * of a day. */
#define PARTS ((__int128)1000000000000000)
#define MOST (INT64_MAX * PARTS)

/* Reads digits with at most one point, in any locale, in PARTS. Moves *at past them. */
static bool decimal(const char **at, __int128 *ret)
{
	const char *p = *at;
	__int128 value = 0, part = PARTS;
	bool digits = false, point = false;

	for (; (*p >= '0' && *p <= '9') || (*p == '.' && !point); p++) {
		if (*p == '.') {
			point = true;
			continue;
		}
		digits = true;
		if (point)
			part /= 10;
		value = point ? value + (*p - '0') * part : value * 10 + (*p - '0') * part;
		if (value > MOST)
			return false;
	}
	*at = p;
	*ret = value;
	return digits;
}

bool quantity_duration(const char *text, int64_t *ret_ns)
{
	/* Longer names first: "ms" is not a minute. */
	static const struct {
		const char *unit;
		int64_t ns;
	} units[] = {{"ns", 1},
		     {"us", 1000},
		     {"ms", 1000000},
		     {"min", 60000000000},
		     {"d", 86400000000000},
		     {"h", 3600000000000},
		     {"m", 60000000000},
		     {"s", 1000000000}};
	__int128 total = 0;

	if (strcmp(text, "0") == 0) {
		*ret_ns = 0;
		return true;
	}
	if (!*text)
		return false;
	while (*text) {
		__int128 value;
		size_t i;

		if (!decimal(&text, &value))
			return false;
		for (i = 0; i < sizeof units / sizeof *units; i++)
			if (strncmp(text, units[i].unit, strlen(units[i].unit)) == 0)
				break;
		if (i == sizeof units / sizeof *units || value > (MOST - total) / units[i].ns)
			return false;
		text += strlen(units[i].unit);
		total += value * units[i].ns;
	}
	*ret_ns = (int64_t)((total + PARTS / 2) / PARTS);
	return true;
}

bool quantity_size(const char *text, int64_t *ret_bytes)
{
	static const char units[] = "kKmMgGtT";
	__int128 value;
	int64_t unit_bytes = 1;

	if (!decimal(&text, &value))
		return false;
	if (*text) {
		const char *unit = strchr(units, *text);

		if (*text != 'B') {
			if (!unit)
				return false;
			unit_bytes <<= 10 * ((unit - units) / 2 + 1);
			text++;
		}
		if (*text == 'i')
			text++;
		if (*text == 'B')
			text++;
		if (*text)
			return false;
	}
	if (value > MOST / unit_bytes)
		return false;
	*ret_bytes = (int64_t)(value * unit_bytes / PARTS);
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
