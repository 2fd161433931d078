/* handoff.c - see handoff.h. The messages are kept as they go over the socket, in hexadecimal: their layout is the one that all
 * releases agree on. No locks. */
#include "handoff.h"
#include "store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MESSAGE_BYTES_MAX 512

static void put_message(struct store *store, const char *key, const void *message, size_t n)
{
	char text[2 * MESSAGE_BYTES_MAX + 1];
	if (n == 0 || n > MESSAGE_BYTES_MAX)
		return;
	for (size_t i = 0; i < n; i++)
		snprintf(text + 2 * i, 3, "%02x", ((const unsigned char *)message)[i]);
	store_meta_text(store, key, text);
}

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* True if the file has a whole message of this type from this side. */
static bool get_message(struct store *store, const char *key, uint32_t type, int from_agent, union message_any *ret)
{
	char text[2 * MESSAGE_BYTES_MAX + 1];
	_Alignas(8) unsigned char bytes[MESSAGE_BYTES_MAX];
	const char *why;
	store_get_text(store, key, text, sizeof text);
	size_t n = strlen(text) / 2;
	for (size_t i = 0; i < n; i++) {
		int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
		if (high < 0 || low < 0)
			return false;
		bytes[i] = (unsigned char)(high << 4 | low);
	}
	return n && message_check(bytes, n, from_agent, ret, &why) == 0 && ret->head.type == type;
}

void handoff_write_begin(struct store *store, const struct handoff *handoff)
{
	put_message(store, "handoff_arm", &handoff->arm, handoff->arm.head.size);
	store_meta_int(store, "handoff_deadline", (int64_t)handoff->deadline);
	store_meta_int(store, "handoff_time_limit", (int64_t)handoff->time_limit);
	store_meta_int(store, "handoff_max_bytes", (int64_t)handoff->max_bytes);
	store_meta_int(store, "handoff_timeout", (int64_t)handoff->timeout);
}

void handoff_write_told(struct store *store, const struct handoff *handoff)
{
	/* Its collectors may have been switched before it began. */
	put_message(store, "handoff_arm", &handoff->arm, handoff->arm.head.size);
	for (unsigned bit = 0; bit < COLLECTOR_COUNT; bit++) {
		char key[40];
		snprintf(key, sizeof key, "handoff_collector_%u", bit);
		put_message(store, key, &handoff->collectors[bit], handoff->collectors[bit].head.size);
	}
}

static uint64_t get_time(struct store *store, const char *key)
{
	int64_t value = store_get_int(store, key);
	return value > 0 ? (uint64_t)value : 0;
}

void handoff_read(struct store *store, struct handoff *ret)
{
	union message_any message;
	memset(ret, 0, sizeof *ret);
	if (get_message(store, "handoff_arm", MESSAGE_ARM, 0, &message))
		ret->arm = message.arm;
	ret->deadline = get_time(store, "handoff_deadline");
	ret->time_limit = get_time(store, "handoff_time_limit");
	ret->max_bytes = get_time(store, "handoff_max_bytes");
	ret->timeout = get_time(store, "handoff_timeout");
	for (unsigned bit = 0; bit < COLLECTOR_COUNT; bit++) {
		char key[40];
		snprintf(key, sizeof key, "handoff_collector_%u", bit);
		if (get_message(store, key, MESSAGE_COLLECTOR, 1, &message) && message.collector.collector == bit)
			ret->collectors[bit] = message.collector;
	}
}
