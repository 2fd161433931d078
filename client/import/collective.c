/* collective.c - see collective.h. Lists are texts in a trace; they are read, so that what a capture holds is JSON whoever wrote the trace. */
#include "collective.h"

#include "number.h"

#include <stdio.h>
#include <string.h>

/* torch writes as many of a list, and then "...". */
#define LIST_MAX 30
#define NUMBER_BYTES 24

static bool is(struct kineto_text text, const char *word)
{
	return text.text && strcmp(text.text, word) == 0;
}

static const char *pass(const char *at, const char *what)
{
	return at + strspn(at, what);
}

/* A whole number of 18 digits at most; NULL: there is none. */
static const char *read_number(const char *at, int64_t *ret)
{
	bool negative = *at == '-';
	const char *from = at + negative;
	int64_t value = 0;
	for (at = from; *at >= '0' && *at <= '9' && at - from < 18; at++)
		value = value * 10 + (*at - '0');
	*ret = negative ? -value : value;
	return at == from || (*at >= '0' && *at <= '9') ? NULL : at;
}

/* "[0, 1, ...]" as JSON. 0: it is no list of whole numbers, or the store has failed. */
static uint32_t list_id(struct strings *strings, struct kineto_text text)
{
	char list[LIST_MAX * NUMBER_BYTES + 4] = "[";
	size_t n = 1;
	const char *at = text.text ? pass(text.text, " ") : "";
	if (*at != '[')
		return 0;
	at = pass(at + 1, " ");
	for (unsigned i = 0; i < LIST_MAX && *at != ']' && strncmp(at, "...", 3) != 0; i++) {
		int64_t value;
		at = read_number(at, &value);
		if (!at)
			return 0;
		n += (size_t)snprintf(list + n, sizeof list - n, "%s%lld", i ? ", " : "", (long long)value);
		at = pass(at, " ");
		if (*at != ',' && *at != ']')
			return 0;
		at = *at == ',' ? pass(at + 1, " ") : at;
	}
	list[n++] = ']';
	return strings_id(strings, list, n);
}

static uint8_t asynchronous(int64_t told)
{
	return told < 0 ? 0 : told ? COLLECTIVE_IS_ASYNCHRONOUS : COLLECTIVE_IS_WAITED_FOR;
}

static uint8_t unknown(const struct kineto_collective *from)
{
	return (uint8_t)((from->in_elements < 0 ? COLLECTIVE_UNKNOWN_IN : 0) |
			 (from->out_elements < 0 ? COLLECTIVE_UNKNOWN_OUT : 0) |
			 (from->rank < 0 || from->rank > UINT32_MAX ? COLLECTIVE_UNKNOWN_RANK : 0));
}

bool collective_of(const struct kineto_event *event, struct strings *strings, union event_any *ret)
{
	const struct kineto_collective *from = &event->collective;
	/* An operator that waits for an earlier collective has the same name. */
	if (!from->name.n || is(from->name, "wait") || !is(event->name, "record_param_comms"))
		return false;
	*ret = (union event_any){.head = {.kind = EVENT_COLLECTIVE}};
	struct event_collective *to = &ret->collective;
	to->in_elements = large(from->in_elements);
	to->out_elements = large(from->out_elements);
	to->sequence = from->sequence < 0 ? -1 : from->sequence;
	to->name = strings_name(strings, from->name);
	to->group_name = strings_name(strings, from->group);
	to->description = strings_name(strings, from->description);
	to->ranks = list_id(strings, from->ranks);
	to->dtype = strings_name(strings, from->dtype);
	to->group_size = small(from->group_size);
	to->rank = small(from->rank);
	to->point_to_point = is(from->name, "send") || is(from->name, "recv");
	to->asynchronous = asynchronous(from->asynchronous);
	to->unknown = unknown(from);
	to->in_split = list_id(strings, from->in_split);
	to->out_split = list_id(strings, from->out_split);
	return true;
}
