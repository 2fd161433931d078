/* buffer.h - writes numbers, times and JSON strings into a growing buffer, without stdio, locale or an allocation for
 * each row. A buffer belongs to one thread. Once memory has run out it takes nothing more and says so. */
#ifndef PROFD_CLIENT_EXPORT_BUFFER_H
#define PROFD_CLIENT_EXPORT_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct buffer {
	char *bytes;
	size_t used, size;
	bool failed; /* out of memory: what it holds is not whole */
};

/* Longest text of buffer_put_int and buffer_put_micros. */
#define BUFFER_NUMBER_BYTES 24

void buffer_deinit(struct buffer *b);
bool buffer_grow(struct buffer *b, size_t more);

/* Room for `more` bytes behind what is used; false once memory has run out. */
static inline bool buffer_reserve(struct buffer *b, size_t more)
{
	return (b->size - b->used >= more && !b->failed) || buffer_grow(b, more);
}

static inline void buffer_put(struct buffer *b, const char *bytes, size_t n)
{
	if (n && buffer_reserve(b, n)) {
		memcpy(b->bytes + b->used, bytes, n);
		b->used += n;
	}
}
#define BUFFER_PUT(b, literal) buffer_put(b, "" literal, sizeof(literal) - 1)

void buffer_put_uint(struct buffer *b, uint64_t value);
void buffer_put_int(struct buffer *b, int64_t value);
/* ns as microseconds with three decimals. */
void buffer_put_micros(struct buffer *b, int64_t ns);
/* The shortest text that reads as the same value; JSON has none for infinity and NaN: they become strings. */
void buffer_put_double(struct buffer *b, double value);
/* Hexadecimal digits, at least `digits`. */
void buffer_put_hex(struct buffer *b, uint64_t value, unsigned digits);
/* What stands between the quotes of a JSON string: escaped; what is no UTF-8 becomes U+FFFD, once a byte. */
void buffer_put_escaped(struct buffer *b, const char *bytes, size_t n);
/* A text that is JSON already, unless it is no UTF-8: as above, without the escaping. */
void buffer_put_utf8(struct buffer *b, const char *bytes, size_t n);
/* A whole JSON string; NULL becomes null. */
void buffer_put_string(struct buffer *b, const char *text);

#endif
