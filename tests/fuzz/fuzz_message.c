/* fuzz_message.c - message_check: the first byte says who sent it, the rest is the packet. */
#include "proto/message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_text(const char *text, size_t bytes)
{
	size_t n = strnlen(text, bytes);
	if (n == bytes)
		abort();
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			abort();
	char again[2048];
	message_text(again, bytes, text);
	if (memcmp(again, text, bytes) != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	if (n == 0)
		return 0;
	unsigned char *packet = malloc(n - 1 ? n - 1 : 1);
	if (!packet)
		return 0;
	memcpy(packet, data + 1, n - 1);
	static union message_any message;
	const char *why = NULL;
	int error = message_check(packet, n - 1, data[0] & 1, &message, &why);
	free(packet);
	if (error) {
		if (error != -EPROTO || !why)
			abort();
		return 0;
	}
	if (!message_name(message.head.type))
		abort();
	switch (message.head.type) {
#define MESSAGE(number, NAME, name, from, fds, description) case number:
#define TEXT(name, member, bytes, description) check_text(message.name.member, bytes);
#define END_MESSAGE(NAME, name, first, size) break;
#include "proto/messages.def"
	}
	return 0;
}
