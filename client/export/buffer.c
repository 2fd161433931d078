/* buffer.c - see buffer.h. A buffer belongs to one thread; no locks. */
#include "buffer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void buffer_deinit(struct buffer *b)
{
	free(b->bytes);
	*b = (struct buffer){0};
}

bool buffer_grow(struct buffer *b, size_t more)
{
	if (b->failed)
		return false;
	size_t size = b->size ? b->size : 4096;
	while (size - b->used < more && size < SIZE_MAX / 4)
		size *= 2;
	char *bytes = size - b->used < more ? NULL : realloc(b->bytes, size);
	if (!bytes) {
		b->failed = true;
		return false;
	}
	b->bytes = bytes;
	b->size = size;
	return true;
}

static const char digit_pairs[] =
	"00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748"
	"49505152535455565758596061626364656667686970717273747576777879808182838485868788899091929394959697"
	"9899";

/* Writes the digits at the end of a field of BUFFER_NUMBER_BYTES and returns where they begin. */
static char *digits_before(char *end, uint64_t value)
{
	while (value >= 100) {
		end -= 2;
		memcpy(end, digit_pairs + 2 * (value % 100), 2);
		value /= 100;
	}
	if (value >= 10) {
		end -= 2;
		memcpy(end, digit_pairs + 2 * value, 2);
	} else {
		*--end = (char)('0' + value);
	}
	return end;
}

void buffer_put_uint(struct buffer *b, uint64_t value)
{
	char field[BUFFER_NUMBER_BYTES], *end = field + sizeof field, *at = digits_before(end, value);
	buffer_put(b, at, (size_t)(end - at));
}

void buffer_put_int(struct buffer *b, int64_t value)
{
	char field[BUFFER_NUMBER_BYTES], *end = field + sizeof field;
	char *at = digits_before(end, value < 0 ? -(uint64_t)value : (uint64_t)value);
	if (value < 0)
		*--at = '-';
	buffer_put(b, at, (size_t)(end - at));
}

void buffer_put_micros(struct buffer *b, int64_t ns)
{
	char field[BUFFER_NUMBER_BYTES], *end = field + sizeof field;
	uint64_t value = ns < 0 ? -(uint64_t)ns : (uint64_t)ns, below = value % 1000;
	end[-1] = (char)('0' + below % 10);
	end[-2] = (char)('0' + below / 10 % 10);
	end[-3] = (char)('0' + below / 100);
	end[-4] = '.';
	char *at = digits_before(end - 4, value / 1000);
	if (ns < 0)
		*--at = '-';
	buffer_put(b, at, (size_t)(end - at));
}

void buffer_put_double(struct buffer *b, double value)
{
	if (isnan(value)) {
		BUFFER_PUT(b, "\"nan\"");
	} else if (isinf(value)) {
		buffer_put_string(b, value < 0 ? "-inf" : "inf");
	} else {
		char field[40];
		for (int precision = 15; precision <= 17; precision++) {
			snprintf(field, sizeof field, "%.*g", precision, value);
			if (strtod(field, NULL) == value)
				break;
		}
		char *comma = strchr(field, ','); /* a locale's decimal point */
		if (comma)
			*comma = '.';
		buffer_put(b, field, strlen(field));
	}
}

void buffer_put_hex(struct buffer *b, uint64_t value, unsigned digits)
{
	char field[16];
	unsigned n = 1;
	for (uint64_t rest = value >> 4; rest; rest >>= 4)
		n++;
	if (n < digits)
		n = digits > 16 ? 16 : digits;
	for (unsigned i = 0; i < n; i++)
		field[i] = "0123456789abcdef"[value >> 4 * (n - 1 - i) & 15];
	buffer_put(b, field, n);
}

/* Length of the well-formed UTF-8 sequence at `at`, 0 where there is none (Unicode, table 3-7). */
static size_t sequence_length(const unsigned char *at, size_t n)
{
	unsigned char first = at[0], low = 0x80, high = 0xbf;
	size_t length;
	if (first < 0x80)
		return 1;
	if (first >= 0xc2 && first <= 0xdf)
		length = 2;
	else if (first >= 0xe0 && first <= 0xef)
		length = 3;
	else if (first >= 0xf0 && first <= 0xf4)
		length = 4;
	else
		return 0;
	if (first == 0xe0)
		low = 0xa0;
	else if (first == 0xed)
		high = 0x9f;
	else if (first == 0xf0)
		low = 0x90;
	else if (first == 0xf4)
		high = 0x8f;
	if (n < length || at[1] < low || at[1] > high)
		return 0;
	for (size_t i = 2; i < length; i++)
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	return length;
}

static void put_character(struct buffer *b, const char *bytes, size_t length, bool escape)
{
	unsigned char c = (unsigned char)bytes[0];
	if (length == 0) {
		BUFFER_PUT(b, "\xef\xbf\xbd");
	} else if (escape && (c == '"' || c == '\\')) {
		char pair[2] = {'\\', (char)c};
		buffer_put(b, pair, 2);
	} else if (escape && (c < 0x20 || c == 0x7f)) {
		char code[6] = {'\\', 'u', '0', '0', "0123456789abcdef"[c >> 4], "0123456789abcdef"[c & 15]};
		buffer_put(b, code, 6);
	} else {
		buffer_put(b, bytes, length);
	}
}

static void put_text(struct buffer *b, const char *bytes, size_t n, bool escape)
{
	size_t from = 0, at = 0;
	while (at < n) {
		unsigned char c = (unsigned char)bytes[at];
		bool plain = c >= 0x20 && c < 0x7f && !(escape && (c == '"' || c == '\\'));
		if (plain) {
			at++;
			continue;
		}
		size_t length = sequence_length((const unsigned char *)bytes + at, n - at);
		buffer_put(b, bytes + from, at - from);
		put_character(b, bytes + at, length, escape);
		at += length ? length : 1;
		from = at;
	}
	buffer_put(b, bytes + from, n - from);
}

void buffer_put_escaped(struct buffer *b, const char *bytes, size_t n)
{
	put_text(b, bytes, n, true);
}

void buffer_put_utf8(struct buffer *b, const char *bytes, size_t n)
{
	put_text(b, bytes, n, false);
}

void buffer_put_string(struct buffer *b, const char *text)
{
	if (!text) {
		BUFFER_PUT(b, "null");
		return;
	}
	BUFFER_PUT(b, "\"");
	buffer_put_escaped(b, text, strlen(text));
	BUFFER_PUT(b, "\"");
}
