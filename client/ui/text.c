/* text.c - see text.h. */
#include "text.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

void *need(void *pointer)
{
	if (!pointer) {
		fputs("profd: out of memory\n", stderr);
		exit(1);
	}
	return pointer;
}

int32_t text_decode(const char **at)
{
	const unsigned char *p = (const unsigned char *)*at;
	unsigned extra;
	int32_t value;
	int32_t least;

	if (!p[0])
		return 0;
	if (p[0] < 0x80) {
		*at += 1;
		return p[0];
	}
	if ((p[0] & 0xe0) == 0xc0) {
		extra = 1;
		value = p[0] & 0x1f;
		least = 0x80;
	} else if ((p[0] & 0xf0) == 0xe0) {
		extra = 2;
		value = p[0] & 0x0f;
		least = 0x800;
	} else if ((p[0] & 0xf8) == 0xf0) {
		extra = 3;
		value = p[0] & 0x07;
		least = 0x10000;
	} else {
		*at += 1;
		return -1;
	}
	for (unsigned i = 1; i <= extra; i++) {
		if ((p[i] & 0xc0) != 0x80) {
			*at += 1;
			return -1;
		}
		value = (value << 6) | (p[i] & 0x3f);
	}
	if (value < least || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff)) {
		*at += 1;
		return -1;
	}
	*at += 1 + extra;
	return value;
}

/* Would this character do more on a terminal than fill its cells? */
static bool harmful(int32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
	       (c >= 0x2060 && c <= 0x206f) || c == 0xfeff || (c >= 0xfff9 && c <= 0xfffb) ||
	       (c >= 0xe0000 && c <= 0xe007f);
}

char *text_safe(const char *text)
{
	const char *at = text ? text : "";
	char *safe = need(malloc(strlen(at) + 1));
	size_t n = 0;

	for (;;) {
		const char *start = at;
		int32_t c = text_decode(&at);

		if (c == 0)
			break;
		if (harmful(c)) {
			safe[n++] = '?';
			continue;
		}
		memcpy(safe + n, start, (size_t)(at - start));
		n += (size_t)(at - start);
	}
	safe[n] = 0;
	return safe;
}

char *text_utf8(const char *text)
{
	const char *at = text ? text : "";
	char *clean = need(malloc(3 * strlen(at) + 1));
	size_t n = 0;

	for (;;) {
		const char *start = at;
		int32_t c = text_decode(&at);

		if (c == 0)
			break;
		if (c < 0) {
			memcpy(clean + n, "\xef\xbf\xbd", 3);
			n += 3;
			continue;
		}
		memcpy(clean + n, start, (size_t)(at - start));
		n += (size_t)(at - start);
	}
	clean[n] = 0;
	return clean;
}

static size_t cells(int32_t c)
{
	int width = wcwidth((wchar_t)c);

	return width < 0 ? 1 : (size_t)width;
}

const char *text_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

size_t text_width(const char *text)
{
	size_t width = 0;
	int32_t c;

	while ((c = text_decode(&text)) != 0)
		width += cells(c);
	return width;
}

char *text_cut(const char *text, size_t width)
{
	static const char gap[] = "...";
	size_t whole = text_width(text);
	size_t head, tail, skipped = 0, taken = 0, n = 0;
	const char *at = text;
	char *cut;
	int32_t c;

	if (whole <= width || width < sizeof gap + 1)
		return need(strdup(text));
	cut = need(malloc(strlen(text) + sizeof gap));
	head = (width - (sizeof gap - 1) + 1) / 2;
	tail = width - (sizeof gap - 1) - head;
	for (;;) {
		const char *start = at;

		c = text_decode(&at);
		if (c == 0 || taken + cells(c) > head)
			break;
		taken += cells(c);
		memcpy(cut + n, start, (size_t)(at - start));
		n += (size_t)(at - start);
	}
	memcpy(cut + n, gap, sizeof gap - 1);
	n += sizeof gap - 1;
	for (at = text; whole - skipped > tail && (c = text_decode(&at)) != 0;)
		skipped += cells(c);
	memcpy(cut + n, at, strlen(at) + 1);
	return cut;
}

/* Four significant digits and a unit. */
static const char *scaled(char *to, double value, const char *unit)
{
	double size = value < 0 ? -value : value;
	int decimals = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3;

	snprintf(to, TEXT_FIGURE_BYTES, "%.*f %s", decimals, value, unit);
	return to;
}

const char *text_duration(char to[TEXT_FIGURE_BYTES], int64_t ns)
{
	double value = (double)ns;

	if (ns > -1000 && ns < 1000) {
		snprintf(to, TEXT_FIGURE_BYTES, "%lld ns", (long long)ns);
		return to;
	}
	if (ns < 0) {
		char positive[TEXT_FIGURE_BYTES];

		/* INT64_MIN cannot be negated. No figure that is shown comes near it. */
		snprintf(to, TEXT_FIGURE_BYTES, "-%s", text_duration(positive, ns == INT64_MIN ? INT64_MAX : -ns));
		return to;
	}
	/* The bounds lie where four digits would round up to the next unit. */
	if (value < 999.95e3)
		return scaled(to, value / 1e3, "us");
	if (value < 999.95e6)
		return scaled(to, value / 1e6, "ms");
	return scaled(to, value / 1e9, "s");
}

const char *text_bytes(char to[TEXT_FIGURE_BYTES], int64_t bytes)
{
	double value = (double)bytes;
	double size = value < 0 ? -value : value;

	if (size < 1024) {
		snprintf(to, TEXT_FIGURE_BYTES, "%lld B", (long long)bytes);
		return to;
	}
	if (size < 1024.0 * 1024)
		return scaled(to, value / 1024, "KiB");
	if (size < 1024.0 * 1024 * 1024)
		return scaled(to, value / 1024 / 1024, "MiB");
	return scaled(to, value / 1024 / 1024 / 1024, "GiB");
}

const char *text_count(char to[TEXT_FIGURE_BYTES], int64_t count)
{
	char digits[TEXT_FIGURE_BYTES];
	int n = snprintf(digits, sizeof digits, "%lld", (long long)count);
	int from = digits[0] == '-';
	int out = 0;

	for (int i = 0; i < n && out + 2 < TEXT_FIGURE_BYTES; i++) {
		if (i > from && (n - i) % 3 == 0)
			to[out++] = ',';
		to[out++] = digits[i];
	}
	to[out] = 0;
	return to;
}

const char *text_pid(char to[TEXT_FIGURE_BYTES], int64_t pid)
{
	if (pid > 0)
		snprintf(to, TEXT_FIGURE_BYTES, "pid %lld", (long long)pid);
	else
		snprintf(to, TEXT_FIGURE_BYTES, "pid not seen from here");
	return to;
}

bool glob_matches(const char *glob, const char *name)
{
	return fnmatch(glob, name, 0) == 0;
}
