/* strings.h - the texts of a trace, which the capture file has once: each has its number there. */
#ifndef PROFD_CLIENT_IMPORT_STRINGS_H
#define PROFD_CLIENT_IMPORT_STRINGS_H

#include "intern.h"
#include "kineto.h"

#include "store/store.h"

struct strings {
	struct store *store; /* not owned */
	struct intern texts, inputs;
};

/* The number of a text. 0: it is empty, or the store has failed (store_error). */
uint32_t strings_id(struct strings *strings, const char *text, size_t n);
uint32_t strings_name(struct strings *strings, struct kineto_text text);
/* The number of an operator's shapes, types, strides and values. 0: it has none, or the store has failed. */
uint32_t strings_inputs(struct strings *strings, const struct kineto_event *event);
void strings_free(struct strings *strings);

#endif
