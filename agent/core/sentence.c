/* sentence.c - see sentence.h. */
#include "sentence.h"

#include <stdarg.h>
#include <string.h>

size_t sentence_decimal(char *to, uint64_t value)
{
	char digits[20];
	size_t n = 0;
	do
		digits[n++] = (char)('0' + value % 10);
	while (value /= 10);
	for (size_t i = 0; i < n; i++)
		to[i] = digits[n - 1 - i];
	to[n] = 0;
	return n;
}

struct sentence sentence_begin(char *text, size_t bytes)
{
	if (bytes)
		text[0] = 0;
	return (struct sentence){text, bytes, 0};
}

struct sentence sentence_continue(char *text, size_t bytes)
{
	return (struct sentence){text, bytes, strnlen(text, bytes)};
}

void sentence_add(struct sentence *s, const char *text)
{
	size_t n = strlen(text);
	if (s->used >= s->bytes)
		return;
	if (n > s->bytes - 1 - s->used)
		n = s->bytes - 1 - s->used;
	memcpy(s->text + s->used, text, n);
	s->used += n;
	s->text[s->used] = 0;
}

void sentence_add_number(struct sentence *s, uint64_t number)
{
	char digits[24];
	sentence_decimal(digits, number);
	sentence_add(s, digits);
}

void sentence_put(char *text, size_t bytes, ...)
{
	struct sentence s = sentence_begin(text, bytes);
	va_list parts;
	va_start(parts, bytes);
	for (const char *part; (part = va_arg(parts, const char *)) != NULL;)
		sentence_add(&s, part);
	va_end(parts);
}
