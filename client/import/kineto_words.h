/* kineto_words.h - the keys of a trace that are read: where each stands, and what becomes of its value. */
#ifndef PROFD_CLIENT_IMPORT_KINETO_WORDS_H
#define PROFD_CLIENT_IMPORT_KINETO_WORDS_H

#include <stddef.h>

/* Where the parser is. What is not listed is passed over, whatever it holds. */
enum place { OUTSIDE, TOP, EVENTS, EVENT, ARGUMENTS, NUMBERS, DEVICES, DEVICE };

/* Fields of an event, of its arguments, of a device, of the file. */
enum field {
	FIELD_NONE,
	FIELD_PHASE,
	FIELD_CATEGORY,
	FIELD_NAME,
	FIELD_START,
	FIELD_DURATION,
	FIELD_TEXT,   /* struct kineto_text at `offset` */
	FIELD_NUMBER, /* int64_t at `offset` */
	FIELD_THREE,  /* int64_t[3] at `offset` */
	FIELD_JSON,   /* what stands there, as it stands there */
	FIELD_WORD,   /* a text, or a number as a text */
	FIELD_LIST,   /* a text that is a list, or the list itself */
	FIELD_OBJECT, /* char *: JSON of its own memory */
	FIELD_PLACE,  /* something of its own: `place` */
	FIELD_HOST,
	FIELD_TORCH
};

struct known {
	const char *word;
	size_t bytes; /* of the word */
	enum field field;
	size_t offset; /* of the member of what the place describes: struct kineto_event, kineto_device or kineto_about */
	enum place place; /* of FIELD_PLACE: what its value is */
};

/* A key of that place; NULL: one that is passed over. */
const struct known *kineto_word(enum place place, const char *key, size_t n);

#endif
