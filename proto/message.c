/* message.c - the check of the fixed records that agents and daemon exchange. No state. */
#include "message.h"

#include <errno.h>
#include <string.h>

const char *message_name(unsigned type)
{
	switch (type) {
#define MESSAGE(number, NAME, name, from, fds, description)                                                            \
	case number:                                                                                                   \
		return #name;
#include "messages.def"
	default:
		return NULL;
	}
}

const char *cancel_reason_word(unsigned reason)
{
	switch (reason) {
	case REASON_NONE:
		return "none";
	case REASON_CANCELLED:
		return "cancelled";
	case REASON_DEADLINE:
		return "deadline";
	case REASON_EXIT:
		return "exit";
	case REASON_LIMIT:
		return "limit";
	case REASON_MISSED:
		return "missed";
	case REASON_AGENT:
		return "agent";
	case REASON_DAEMON:
		return "daemon";
	case REASON_DIED:
		return "died";
	case REASON_LEFT:
		return "left";
	case REASON_DETACHED:
		return "detached";
	case REASON_PHASE:
		return "phase";
	default:
		return NULL;
	}
}

const char *cancel_reason_sentence(unsigned reason)
{
	switch (reason) {
	case REASON_NONE:
		return "the schedule ran to its end";
	case REASON_CANCELLED:
		return "cancelled";
	case REASON_DEADLINE:
		return "the process did not step in time";
	case REASON_EXIT:
		return "the process exited";
	case REASON_LIMIT:
		return "the limit of events was reached";
	case REASON_MISSED:
		return "the wanted step had passed before the collectors were on";
	case REASON_AGENT:
		return "the agent gave up";
	case REASON_DAEMON:
		return "the daemon went down";
	case REASON_DIED:
		return "the process died";
	case REASON_LEFT:
		return "a signal handler of the job jumped out of the recorder at a step's end (siglongjmp)";
	case REASON_DETACHED:
		return "the agent was detached";
	case REASON_PHASE:
		return "the loop left the phase before all steps were recorded";
	default:
		return NULL;
	}
}

/* Length of the well-formed UTF-8 sequence (RFC 3629: shortest form, no surrogates) at p[0..n), 0 where there is none. */
static size_t utf8_length(const unsigned char *p, size_t n)
{
	if (n == 0)
		return 0;
	if (p[0] < 0x80)
		return 1;
	size_t length;
	unsigned char low = 0x80, high = 0xbf;
	if (p[0] >= 0xc2 && p[0] <= 0xdf) {
		length = 2;
	} else if (p[0] >= 0xe0 && p[0] <= 0xef) {
		length = 3;
		if (p[0] == 0xe0)
			low = 0xa0;
		else if (p[0] == 0xed)
			high = 0x9f;
	} else if (p[0] >= 0xf0 && p[0] <= 0xf4) {
		length = 4;
		if (p[0] == 0xf0)
			low = 0x90;
		else if (p[0] == 0xf4)
			high = 0x8f;
	} else {
		return 0;
	}
	if (n < length || p[1] < low || p[1] > high)
		return 0;
	for (size_t i = 2; i < length; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	return length;
}

/* C0, DEL and C1: characters that a terminal obeys. */
static int is_control(const unsigned char *p, size_t length)
{
	return p[0] < 0x20 || p[0] == 0x7f || (length == 2 && p[0] == 0xc2 && p[1] < 0xa0);
}

/* 0 where the text does not end within its array. Else everything from the first bad character on becomes NUL, so no
 * byte of the peer after the text is passed on. */
static int text_clean(char *text, size_t bytes)
{
	const char *end = memchr(text, 0, bytes);
	if (!end)
		return 0;
	size_t n = (size_t)(end - text), at = 0;
	while (at < n) {
		const unsigned char *p = (const unsigned char *)text + at;
		size_t length = utf8_length(p, n - at);
		if (length == 0 || is_control(p, length))
			break;
		at += length;
	}
	memset(text + at, 0, bytes - at);
	return 1;
}

static int broken(const char **ret_why, const char *why)
{
	if (ret_why)
		*ret_why = why;
	return -EPROTO;
}

int message_check(const void *packet, size_t n, int from_agent, union message_any *out, const char **ret_why)
{
	enum { DAEMON = 0, AGENT = 1 };
	struct message_head head;
	if (n < sizeof head)
		return broken(ret_why, "shorter than a message's head");
	memcpy(&head, packet, sizeof head);
	if (head.magic != MESSAGE_MAGIC)
		return broken(ret_why, "wrong magic number");
	if (head.size != n)
		return broken(ret_why, "the stated size is not the packet's");
	size_t size, first;
	int from;
	switch (head.type) {
#define MESSAGE(number, NAME, name, sender, fds, description)                                                          \
	case number:                                                                                                   \
		from = sender;
#define END_MESSAGE(NAME, name, first_bytes, bytes)                                                                    \
	first = first_bytes;                                                                                           \
	size = bytes;                                                                                                  \
	break;
#include "messages.def"
	default:
		return broken(ret_why, "unknown type");
	}
	if (from != (from_agent != 0))
		return broken(ret_why, "this message goes the other way");
	if (n < first)
		return broken(ret_why, "shorter than its type");
	if (n < size)
		size = n;
	memcpy(out, packet, size);
	memset((unsigned char *)out + size, 0, sizeof *out - size);
	int clean = 1;
	switch (head.type) {
#define MESSAGE(number, NAME, name, sender, fds, description) case number:
#define TEXT(name, member, bytes, description) clean = clean && text_clean(out->name.member, bytes);
#define END_MESSAGE(NAME, name, first, bytes) break;
#include "messages.def"
	}
	return clean ? 0 : broken(ret_why, "a text without an end");
}

void message_text(char *to, size_t to_bytes, const char *from)
{
	if (to_bytes == 0)
		return;
	size_t n = strnlen(from, to_bytes + 3), at = 0, out = 0;
	while (at < n) {
		const unsigned char *p = (const unsigned char *)from + at;
		size_t length = utf8_length(p, n - at);
		int bad = length == 0 || is_control(p, length);
		size_t written = bad ? 1 : length;
		if (out + written >= to_bytes)
			break;
		if (bad)
			to[out] = '?';
		else
			memcpy(to + out, p, length);
		out += written;
		at += length ? length : 1;
	}
	memset(to + out, 0, to_bytes - out);
}
