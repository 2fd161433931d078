/* views.c - see views.h. */
#include "views.h"

#include "client/ui/text.h"
#include "recorded.h"

#include "proto/events.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VIEW_BIT(activity) (INT64_C(1) << (activity))

static const struct view views[] = {
#define VIEW(name, key, heading, collectors, flags, activities, sentence, json)                                        \
	{#name, key, heading, collectors, flags, activities, report_##name},
#include "views.def"
};

const struct view *view_table(size_t *ret_count)
{
	*ret_count = sizeof views / sizeof *views;
	return views;
}

const struct view *view_find(const char *name)
{
	for (size_t i = 0; i < sizeof views / sizeof *views; i++)
		if (strcmp(views[i].name, name) == 0)
			return &views[i];
	return NULL;
}

/* The next of the view's collectors; moves *at. False behind the last one. */
static bool next_collector(const char **at, char *word, size_t bytes)
{
	size_t length = strcspn(*at, " ");

	snprintf(word, bytes, "%.*s", (int)length, *at);
	*at += length;
	*at += strspn(*at, " ");
	return length > 0;
}

bool view_recorded(const struct reader *reader, const struct view *view)
{
	const char *at = view->collectors;
	char collector[32];
	bool any = !*at;

	while (!any && next_collector(&at, collector, sizeof collector))
		any = view->flags & VIEW_DEVICE ? report_device_ran(reader, collector) : report_ran(reader, collector);
	return any && !report_refused(reader, view->activities);
}

char *view_absence(const struct reader *reader, const struct view *view)
{
	const char *at = view->collectors;
	char collector[32];
	char *sentence, *safe, *text = NULL;
	int n;

	/* What the first of its collectors said. */
	next_collector(&at, collector, sizeof collector);
	sentence = report_sentence(reader, collector);
	safe = text_safe(sentence);
	if (view->flags & VIEW_DEVICE && reader_meta_int(reader, "schema", 0) < 2)
		n = asprintf(&text, "not recorded: the release of profd that wrote the capture knew no CUDA activity");
	else if (report_refused(reader, view->activities))
		n = asprintf(&text, "not recorded: CUPTI refuses it in this process");
	else
		n = asprintf(&text, "not recorded%s%s", *safe ? ": " : "", safe);
	free(safe);
	free(sentence);
	return need(n < 0 ? NULL : text);
}
