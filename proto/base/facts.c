/* facts.c - see facts.h. */
#include "facts.h"

#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void capture_id_text(uint64_t number, bool user, char ret[ID_BYTES])
{
	snprintf(ret, ID_BYTES, "%s%" PRIu64, user ? "u" : "", number);
}

void trigger_id_text(uint64_t number, bool user, char ret[ID_BYTES])
{
	snprintf(ret, ID_BYTES, "%st%" PRIu64, user ? "u" : "", number);
}

static uint64_t digits(const char *text)
{
	size_t n = strspn(text, "0123456789");
	if (n == 0 || n > 18 || text[n])
		return 0;
	return strtoull(text, NULL, 10);
}

uint64_t capture_id_parse(const char *text, bool user)
{
	if (user && *text++ != 'u')
		return 0;
	return digits(text);
}

uint64_t trigger_id_parse(const char *text, bool user)
{
	if (user && *text++ != 'u')
		return 0;
	return *text == 't' ? digits(text + 1) : 0;
}

void text_copy(char *to, size_t to_bytes, const char *from)
{
	snprintf(to, to_bytes, "%s", from);
}

/* Length of the UTF-8 character at p (n bytes are there), 0 if there is none. Overlong forms, surrogates and values
 * beyond U+10FFFF are no characters. */
static size_t character(const unsigned char *p, size_t n)
{
	if (p[0] < 0x80)
		return p[0] >= 0x20 || p[0] == '\t' || p[0] == '\n' ? (p[0] != 0x7f) : 0;
	size_t length = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
	if (p[0] < 0xc2 || p[0] > 0xf4 || n < length)
		return 0;
	for (size_t i = 1; i < length; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
	    (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return length;
}

void text_clean(char *text, size_t n)
{
	for (size_t i = 0; i < n;) {
		size_t length = character((const unsigned char *)text + i, n - i);
		if (length == 0)
			text[i++] = '?';
		else
			i += length;
	}
}

void user_name(uid_t uid, char *to, size_t to_bytes)
{
	struct passwd entry, *found = NULL;
	char buffer[4096];
	if (getpwuid_r(uid, &entry, buffer, sizeof buffer, &found) == 0 && found && *found->pw_name)
		text_copy(to, to_bytes, found->pw_name);
	else
		snprintf(to, to_bytes, "%u", (unsigned)uid);
	text_clean(to, strlen(to));
}
