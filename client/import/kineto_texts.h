/* kineto_texts.h - the texts of one event, or device, while it is read: one after the other in memory that the next one uses again. JSON
 * that is kept as it is, is one of them. Functions that return bool: false where there is no memory, which `no_memory` says, too. */
#ifndef PROFD_CLIENT_IMPORT_KINETO_TEXTS_H
#define PROFD_CLIENT_IMPORT_KINETO_TEXTS_H

#include <stdbool.h>
#include <stddef.h>

#define KINETO_TEXTS 16

struct kineto_texts {
	char *bytes; /* to be freed */
	size_t n, room;
	/* Texts by their place in `bytes`, which moves. */
	struct {
		size_t offset; /* of a struct kineto_text in the event or the device */
		size_t at, n;
	} list[KINETO_TEXTS];
	unsigned count;
	unsigned copying;	     /* brackets that are open in JSON that is copied */
	bool after_value, after_key; /* in that, a comma or nothing comes next */
	bool no_memory;
};

/* Before each event. */
void texts_clear(struct kineto_texts *texts);
/* The text of the member at `offset`; one that has no place any more is left out. */
bool texts_put(struct kineto_texts *texts, size_t offset, const char *bytes, size_t n);
/* Lets the members of `thing` point to their texts: when it is whole. */
void texts_settle(struct kineto_texts *texts, void *thing);

/* Begins the JSON of the member at `offset`, with its first bracket; the last one ends it. *taken: there was a place for it. */
bool texts_begin_json(struct kineto_texts *texts, size_t offset, const char *bracket, bool *taken);
bool texts_open(struct kineto_texts *texts, const char *bracket);
bool texts_close(struct kineto_texts *texts, const char *bracket);
bool texts_string(struct kineto_texts *texts, const unsigned char *text, size_t n);
bool texts_key(struct kineto_texts *texts, const unsigned char *text, size_t n);
/* A number, true, false or null. */
bool texts_word(struct kineto_texts *texts, const char *word, size_t n);

#endif
