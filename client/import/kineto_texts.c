/* kineto_texts.c - see kineto_texts.h. */
#include "kineto_texts.h"

#include "kineto.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool append(struct kineto_texts *texts, const char *bytes, size_t n)
{
	if (texts->n + n + 1 > texts->room) {
		size_t room = texts->room * 2 > texts->n + n + 1 ? texts->room * 2 : texts->n + n + 4096;
		char *grown = realloc(texts->bytes, room);
		if (!grown) {
			texts->no_memory = true;
			return false;
		}
		texts->bytes = grown;
		texts->room = room;
	}
	memcpy(texts->bytes + texts->n, bytes, n);
	texts->n += n;
	return true;
}

void texts_clear(struct kineto_texts *texts)
{
	texts->n = 0;
	texts->count = 0;
}

static bool begin(struct kineto_texts *texts, size_t offset)
{
	if (texts->count == KINETO_TEXTS)
		return false;
	texts->list[texts->count].offset = offset;
	texts->list[texts->count++].at = texts->n;
	return true;
}

/* Ends the text that was begun last. */
static bool end(struct kineto_texts *texts)
{
	texts->list[texts->count - 1].n = texts->n - texts->list[texts->count - 1].at;
	return append(texts, "", 1);
}

bool texts_put(struct kineto_texts *texts, size_t offset, const char *bytes, size_t n)
{
	return !begin(texts, offset) || (append(texts, bytes, n) && end(texts));
}

void texts_settle(struct kineto_texts *texts, void *thing)
{
	for (unsigned i = 0; i < texts->count; i++) {
		struct kineto_text *to = (struct kineto_text *)(void *)((char *)thing + texts->list[i].offset);
		*to = (struct kineto_text){.text = texts->bytes + texts->list[i].at, .n = texts->list[i].n};
	}
}

static bool separate(struct kineto_texts *texts)
{
	bool comma = texts->after_value && !texts->after_key;
	texts->after_value = true;
	texts->after_key = false;
	return !comma || append(texts, ", ", 2);
}

bool texts_begin_json(struct kineto_texts *texts, size_t offset, const char *bracket, bool *taken)
{
	*taken = begin(texts, offset);
	texts->after_value = texts->after_key = false;
	return !*taken || texts_open(texts, bracket);
}

bool texts_open(struct kineto_texts *texts, const char *bracket)
{
	if (!separate(texts) || !append(texts, bracket, 1))
		return false;
	texts->copying++;
	texts->after_value = false;
	return true;
}

bool texts_close(struct kineto_texts *texts, const char *bracket)
{
	if (!append(texts, bracket, 1))
		return false;
	texts->after_value = true;
	return --texts->copying || end(texts);
}

bool texts_string(struct kineto_texts *texts, const unsigned char *text, size_t n)
{
	if (!separate(texts) || !append(texts, "\"", 1))
		return false;
	for (size_t i = 0; i < n; i++) {
		char escaped[8];
		int length = 0;
		if (text[i] == '"' || text[i] == '\\')
			length = snprintf(escaped, sizeof escaped, "\\%c", text[i]);
		else if (text[i] < 0x20)
			length = snprintf(escaped, sizeof escaped, "\\u%04x", text[i]);
		if (length ? !append(texts, escaped, (size_t)length) : !append(texts, (const char *)&text[i], 1))
			return false;
	}
	return append(texts, "\"", 1);
}

bool texts_key(struct kineto_texts *texts, const unsigned char *text, size_t n)
{
	if (!texts_string(texts, text, n) || !append(texts, ": ", 2))
		return false;
	texts->after_key = true;
	return true;
}

bool texts_word(struct kineto_texts *texts, const char *word, size_t n)
{
	return separate(texts) && append(texts, word, n);
}
