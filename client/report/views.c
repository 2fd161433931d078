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
#define VIEW(name, key, heading, fills, flags, activities, cuts, sentence, json)                                       \
	{#name, key, heading, fills, flags, activities, cuts, report_##name},
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

/* The views that these options can cut. */
static const char *cut_by(unsigned cuts, char *to, size_t bytes)
{
	size_t n = 0;

	to[0] = '\0';
	for (size_t i = 0; i < sizeof views / sizeof *views && n < bytes; i++)
		if (!(cuts & ~views[i].cuts))
			n += (size_t)snprintf(to + n, bytes - n, "%s%s", n ? ", " : "", views[i].name);
	return to;
}

bool view_refuses(const struct view *view, unsigned cuts, char *why, size_t bytes)
{
	char not [64], all[64], takes[64], others[400];

	if (!(cuts & ~view->cuts))
		return false;
	cuts_text(view->cuts, takes, sizeof takes);
	snprintf(why, bytes, "%s cannot cut the table %s, which takes %s; tables that take %s: %s",
		 cuts_text(cuts & ~view->cuts, not, sizeof not ), view->name, *takes ? takes : "none of these options",
		 cuts_text(cuts, all, sizeof all), cut_by(cuts, others, sizeof others));
	return true;
}

bool view_recorded(const struct reader *reader, const struct view *view)
{
	if (view->flags & VIEW_LOOKED && !report_looked(reader))
		return false;
	if (view->flags & VIEW_USED && !report_used_cupti(reader))
		return false;
	if (view->flags & VIEW_BLOCKS && !report_tells_blocks(reader))
		return false;
	if (view->flags & VIEW_LATER && !report_has_table(reader, view->name))
		return false;
	return (!view->fills || report_filled(reader, view->fills)) && !report_refused(reader, view->activities);
}

char *view_absence(const struct reader *reader, const struct view *view)
{
	char *sentence = report_unfilled(reader, view->fills);
	char *safe, *text = NULL;
	int n;

	safe = text_safe(sentence);
	if (view->flags & VIEW_DEVICE && reader_meta_int(reader, "schema", 0) < 2)
		n = asprintf(&text, "not recorded: the release of profd that wrote the capture knew no CUDA activity");
	else if (view->flags & VIEW_LOOKED)
		n = asprintf(&text, "not recorded: nobody looked at the processes that the job had forked");
	else if (view->flags & VIEW_BLOCKS && report_filled(reader, view->fills))
		n = asprintf(&text, "not recorded: the trace does not tell one block from another (torch before 1.10)");
	else if (view->flags & VIEW_LATER && !report_has_table(reader, view->name))
		n = asprintf(&text, "not recorded: the release of profd that wrote the capture knew no %s", view->name);
	else if (report_refused(reader, view->activities))
		n = asprintf(&text, "not recorded: %s",
			     report_used_cupti(reader) ? "CUPTI refuses it in this process"
						       : "the trace holds none of it");
	else if (view->flags & VIEW_USED && report_gpu(reader))
		n = asprintf(&text, "not recorded: the trace does not say how CUPTI was used");
	else
		n = asprintf(&text, "not recorded%s%s", *safe ? ": " : "", safe);
	free(safe);
	free(sentence);
	return need(n < 0 ? NULL : text);
}
