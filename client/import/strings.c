/* strings.c - see strings.h. */
#include "strings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint32_t no_memory(struct strings *strings)
{
	store_set_error(strings->store, -ENOMEM, "there is no memory left");
	return 0;
}

uint32_t strings_id(struct strings *strings, const char *text, size_t n)
{
	bool is_new;
	if (!n)
		return 0;
	uint32_t id = intern_id(&strings->texts, intern_key((struct intern_key){0}, text, n), &is_new);
	if (!id)
		no_memory(strings);
	else if (is_new) {
		/* There may be zeros in it. */
		char *clean = malloc(n);
		if (!clean)
			return no_memory(strings);
		memcpy(clean, text, n);
		text_clean(clean, n);
		store_put_string(strings->store, id, clean, n);
		free(clean);
	}
	return id;
}

uint32_t strings_name(struct strings *strings, struct kineto_text text)
{
	return text.text ? strings_id(strings, text.text, text.n) : 0;
}

static const char *json_or(struct kineto_text text, const char *otherwise)
{
	return text.text ? text.text : otherwise;
}

uint32_t strings_inputs(struct strings *strings, const struct kineto_event *event)
{
	const struct kineto_text *texts[] = {&event->dims, &event->types, &event->strides, &event->concrete};
	struct intern_key key = {0};
	bool is_new, any = false;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		key = intern_key(key, texts[i]->text ? texts[i]->text : "", texts[i]->text ? texts[i]->n : 0);
		any = any || texts[i]->n > 2;
	}
	if (!any)
		return 0;
	uint32_t id = intern_id(&strings->inputs, key, &is_new);
	if (!id)
		no_memory(strings);
	else if (is_new)
		store_put_inputs(strings->store, id, json_or(event->dims, "[]"), json_or(event->types, "[]"),
				 json_or(event->strides, "[]"), json_or(event->concrete, "[]"));
	return id;
}

void strings_free(struct strings *strings)
{
	intern_free(&strings->texts);
	intern_free(&strings->inputs);
}
