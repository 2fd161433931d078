/* events.c - names of the numbers in *.def, and the one reader of event records. */
#include "events.h"
#include "limits.h"

#include <string.h>

const char *loss_name(unsigned loss)
{
	switch (loss) {
#define LOSS(number, NAME, name, is_loss, sentence)                                                                    \
	case number:                                                                                                   \
		return #name;
#include "losses.def"
	default:
		return NULL;
	}
}

const char *loss_sentence(unsigned loss)
{
	switch (loss) {
#define LOSS(number, NAME, name, is_loss, sentence)                                                                    \
	case number:                                                                                                   \
		return sentence;
#include "losses.def"
	default:
		return NULL;
	}
}

const char *activity_word(unsigned i, uint64_t *ret_kinds)
{
	static const struct {
		uint64_t kinds;
		const char *word;
	} words[] = {
		{1ull << ACTIVITY_COPY | 1ull << ACTIVITY_PEER_COPY, "copies"},
		{1ull << ACTIVITY_SET, "memsets"},
		{1ull << ACTIVITY_RUNTIME, "calls of the runtime API"},
		{1ull << ACTIVITY_DRIVER, "calls of the driver API"},
		{1ull << ACTIVITY_SYNC, "waits"},
		{1ull << ACTIVITY_MEMORY, "memory"},
	};
	if (i >= sizeof words / sizeof *words)
		return NULL;
	*ret_kinds = words[i].kinds;
	return words[i].word;
}

int loss_is_loss(unsigned loss)
{
	switch (loss) {
#define LOSS(number, NAME, name, is_loss, sentence)                                                                    \
	case number:                                                                                                   \
		return is_loss;
#include "losses.def"
	default:
		return 0;
	}
}

enum event_place event_place_of(unsigned kind)
{
	switch (kind) {
#define EVENT(number, NAME, name, table, min_size, side, place, description)                                           \
	case number:                                                                                                   \
		return PLACE_##place;
#include "events.def"
	default:
		return PLACE_NONE;
	}
}

const char *event_name(unsigned kind)
{
	switch (kind) {
#define EVENT(number, NAME, name, table, min_size, side, place, description)                                           \
	case number:                                                                                                   \
		return #name;
#define RESERVED(number, NAME, name, table, description) EVENT(number, NAME, name, table, 0, HOST, NONE, description)
#include "events.def"
	default:
		return NULL;
	}
}

const char *event_table(unsigned kind)
{
	switch (kind) {
#define EVENT(number, NAME, name, table, min_size, side, place, description)                                           \
	case number:                                                                                                   \
		return table;
#define RESERVED(number, NAME, name, table, description) EVENT(number, NAME, name, table, 0, HOST, NONE, description)
#include "events.def"
	default:
		return NULL;
	}
}

#define WORD_FUNCTION(function, argument)                                                                              \
	const char *function(unsigned argument)                                                                        \
	{                                                                                                              \
		switch (argument) {
#define WORD_END                                                                                                       \
	default:                                                                                                       \
		return NULL;                                                                                           \
		}                                                                                                      \
		}

WORD_FUNCTION(range_source_word, source)
#define RANGE_SOURCE(number, NAME, word)                                                                               \
	case number:                                                                                                   \
		return word;
#include "enums.def"
WORD_END

WORD_FUNCTION(step_source_word, source)
#define STEP_SOURCE(number, NAME, word, sentence)                                                                      \
	case number:                                                                                                   \
		return word;
#include "enums.def"
WORD_END

WORD_FUNCTION(step_source_sentence, source)
#define STEP_SOURCE(number, NAME, word, sentence)                                                                      \
	case number:                                                                                                   \
		return sentence;
#include "enums.def"
WORD_END

WORD_FUNCTION(batches_word, batches)
#define BATCHES(number, NAME, word)                                                                                    \
	case number:                                                                                                   \
		return word;
#include "enums.def"
WORD_END

WORD_FUNCTION(capture_status_word, status)
#define CAPTURE_STATUS(number, NAME, word)                                                                             \
	case number:                                                                                                   \
		return word;
#include "enums.def"
WORD_END

WORD_FUNCTION(copy_kind_word, kind)
#define COPY_KIND(number, NAME, word)                                                                                  \
	case number:                                                                                                   \
		return word;
#include "enums.def"
WORD_END

WORD_FUNCTION(memory_kind_word, kind)
#define MEMORY_KIND(number, NAME, word)                                                                                \
	case number:                                                                                                   \
		return word;
#include "enums.def"
WORD_END

WORD_FUNCTION(sync_kind_word, kind)
#define SYNC_KIND(number, NAME, word)                                                                                  \
	case number:                                                                                                   \
		return word;
#include "enums.def"
WORD_END

enum event_verdict event_read(const void *bytes, size_t n, size_t *at, union event_any *out)
{
	const unsigned char *p = bytes;
	size_t have = *at <= n ? n - *at : 0;
	if (have == 0)
		return EVENT_END;
	if (have < sizeof(struct event_head) || *at % 8)
		return EVENT_BROKEN;
	struct event_head head;
	memcpy(&head, p + *at, sizeof head);
	if (head.size < sizeof head || head.size % 8 || head.size > have || head.size > LIMIT_EVENT_BYTES)
		return EVENT_BROKEN;
	size_t min_size, size;
	switch (head.kind) {
#define EVENT(number, NAME, name, table, min, side, place, description)                                                \
	case number:                                                                                                   \
		min_size = (min);                                                                                      \
		size = sizeof(struct event_##name);                                                                    \
		break;
#include "events.def"
	default:
		memset(out, 0, sizeof *out);
		out->head = head;
		*at += head.size;
		return EVENT_UNKNOWN;
	}
	if (head.size < min_size)
		return EVENT_BROKEN;
	size_t take = head.size < size ? head.size : size;
	memcpy(out, p + *at, take);
	if (take < sizeof *out)
		memset((unsigned char *)out + take, 0, sizeof *out - take);
	*at += head.size;
	return EVENT_OK;
}
