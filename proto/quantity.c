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

/* A number: what is whole exactly, the rest (not below 0) to some 1e-15. */
struct exact {
	int64_t whole;
	double rest;
};

/* Digits with at most one point, without the locale's opinion. Moves *at behind them. */
static bool decimal(const char **at, struct exact *ret)
{
	const char *p = *at;
	int64_t part = 0, weight = 1;
	bool digits = false;

	ret->whole = 0;
	for (; *p >= '0' && *p <= '9'; p++, digits = true)
		if (__builtin_mul_overflow(ret->whole, 10, &ret->whole) ||
		    __builtin_add_overflow(ret->whole, (int64_t)(*p - '0'), &ret->whole))
			return false;
	if (*p == '.')
		for (p++; *p >= '0' && *p <= '9'; p++, digits = true)
			if (weight < 1000000000000000) {
				part = part * 10 + (*p - '0');
				weight *= 10;
			}
	*at = p;
	ret->rest = (double)part / (double)weight;
	return digits;
}

static bool sum_add(struct exact *sum, const struct exact *value, int64_t unit)
{
	int64_t whole;

	sum->rest += value->rest * (double)unit;
	return !__builtin_mul_overflow(value->whole, unit, &whole) &&
	       !__builtin_add_overflow(sum->whole, whole, &sum->whole);
}

/* False where it is too long for 63 bits. */
static bool sum_of(const struct exact *sum, double rest, int64_t *ret)
{
	int64_t all;

	if (rest > 9e18 || __builtin_add_overflow(sum->whole, (int64_t)rest, &all))
		return false;
	*ret = all;
	return true;
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
	struct exact sum = {0};

	if (strcmp(text, "0") == 0) {
		*ret_ns = 0;
		return true;
	}
	if (!*text)
		return false;
	while (*text) {
		struct exact value;
		size_t i;

		if (!decimal(&text, &value))
			return false;
		for (i = 0; i < sizeof units / sizeof *units; i++)
			if (strncmp(text, units[i].unit, strlen(units[i].unit)) == 0)
				break;
		if (i == sizeof units / sizeof *units || !sum_add(&sum, &value, units[i].ns))
			return false;
		text += strlen(units[i].unit);
	}
	return sum_of(&sum, sum.rest + 0.5, ret_ns);
}

bool quantity_size(const char *text, int64_t *ret_bytes)
{
	static const char units[] = "kKmMgGtT";
	struct exact value;
	struct exact sum = {0};
	int64_t bytes = 1;

	if (!decimal(&text, &value))
		return false;
	if (*text) {
		const char *unit = strchr(units, *text);

		if (*text != 'B') {
			if (!unit)
				return false;
			bytes <<= 10 * ((unit - units) / 2 + 1);
			text++;
		}
		if (*text == 'i')
			text++;
		if (*text == 'B')
			text++;
		if (*text)
			return false;
	}
	return sum_add(&sum, &value, bytes) && sum_of(&sum, sum.rest, ret_bytes);
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
