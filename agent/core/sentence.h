/* sentence.h - puts a sentence together piece by piece, and cuts it where it does not fit. The agent uses no stdio. */
#ifndef PROFD_AGENT_CORE_SENTENCE_H
#define PROFD_AGENT_CORE_SENTENCE_H

#include <stddef.h>
#include <stdint.h>

/* Decimal text of a number; returns its length. `to` holds at least 21 bytes. */
size_t sentence_decimal(char *to, uint64_t value);

struct sentence {
	char *text;
	size_t bytes, used;
};

/* An empty one, in `text`. */
struct sentence sentence_begin(char *text, size_t bytes);
/* Goes on with what `text` holds. */
struct sentence sentence_continue(char *text, size_t bytes);

void sentence_add(struct sentence *s, const char *text);
void sentence_add_number(struct sentence *s, uint64_t number);
/* Puts the given texts, up to NULL, together in `text`. */
void sentence_put(char *text, size_t bytes, ...) __attribute__((sentinel));

#endif
