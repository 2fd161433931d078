/* decimal.c - see decimal.h. */
#include "decimal.h"

/* Digits that a 128-bit integer surely holds; those behind them make no difference that anybody measures. */
#define DIGITS 36
#define MOST ((unsigned __int128)INT64_MAX)

/* What stands behind "e", bounded: beyond, every number is 0 or too large. */
static int64_t exponent(const char *text, size_t n)
{
	size_t at = n && (text[0] == '-' || text[0] == '+');
	int64_t value = 0;
	for (; at < n && text[at] >= '0' && text[at] <= '9'; at++)
		value = value < 1000 ? value * 10 + (text[at] - '0') : value;
	return n && text[0] == '-' ? -value : value;
}

/* value times ten to the power of `shift`. */
static bool scale(unsigned __int128 value, int64_t shift, int64_t *ret)
{
	unsigned dropped = 0;
	for (; shift > 0 && value; shift--) {
		if (value > MOST / 10)
			return false;
		value *= 10;
	}
	for (; shift < 0 && (value || dropped); shift++) {
		dropped = (unsigned)(value % 10);
		value /= 10;
	}
	if (value > MOST)
		return false;
	*ret = (int64_t)value + (dropped >= 5);
	return true;
}

bool decimal_read(const char *text, size_t n, unsigned digits, int64_t *ret)
{
	bool negative = n && text[0] == '-', point = false, any = false;
	unsigned __int128 value = 0;
	int64_t shift = digits, scaled;
	unsigned taken = 0;
	for (size_t at = negative; at < n; at++) {
		if (text[at] == 'e' || text[at] == 'E') {
			shift += exponent(text + at + 1, n - at - 1);
			break;
		}
		if (text[at] == '.' && !point) {
			point = true;
			continue;
		}
		if (text[at] < '0' || text[at] > '9')
			return false;
		any = true;
		if (taken < DIGITS) {
			value = value * 10 + (unsigned)(text[at] - '0');
			taken += value != 0;
			shift -= point;
		} else {
			shift += !point;
		}
	}
	if (!any || !scale(value, shift, &scaled))
		return false;
	*ret = negative ? -scaled : scaled;
	return true;
}
