/* tables.c - see tables.h. */
#include "tables.h"

#include "client/report/query.h"
#include "client/report/recorded.h"
#include "client/ui/failure.h"
#include "client/ui/print.h"
#include "client/ui/text.h"

#include <stdlib.h>
#include <string.h>

void tables_init(struct tables *tables, struct capture *capture)
{
	*tables = (struct tables){.capture = capture, .filter = {NULL, -1, -1, -1, 0}, .screen = screen_output()};
	tables->options.summary = capture->summary;
	tables->options.kept = &tables->kept;
	tables->simulated = report_simulated(&capture->reader);
}

void tables_deinit(struct tables *tables)
{
	for (size_t i = 0; i < sizeof tables->parts / sizeof *tables->parts; i++)
		if (tables->opened[i])
			filter_close(&tables->parts[i]);
	where_free(tables->where);
	verdict_forget(&tables->kept);
	*tables = (struct tables){0};
}

/* Those parts of the filter for which the view reads a part of the capture. */
static unsigned parts_of(const struct tables *tables, const struct view *view)
{
	return view->flags & VIEW_ITSELF
		       ? 0
		       : filter_parts(&tables->filter) & ((view->cuts & CUT_HOST ? FILTER_HOST : 0) |
							  (view->cuts & CUT_PLACE ? FILTER_DEVICE : 0));
}

/* NULL: there is nothing of it, as has been said. */
static const struct reader *open_part(struct tables *tables, unsigned parts)
{
	struct breakdown_capture none;

	if (tables->opened[parts])
		return &tables->parts[parts].reader;
	/* It is kept in the tables. */
	if (tables->filter.phases)
		verdict_intervals(&tables->capture->reader, &tables->options, &none);
	tables->code = filter_open(&tables->capture->reader, &tables->filter, parts, &tables->kept.capture,
				   &tables->parts[parts]);
	if (tables->code != EXIT_DONE)
		return NULL;
	tables->opened[parts] = true;
	return &tables->parts[parts].reader;
}

/* The capture, or the part of it that the view is to tell of. */
static const struct reader *part_of(struct tables *tables, const struct view *view)
{
	unsigned parts = parts_of(tables, view);

	/* If nothing is in the phase, views that cut themselves show nothing, either. */
	if (view->flags & VIEW_ITSELF && tables->filter.phases && !open_part(tables, FILTER_HOST))
		return NULL;
	return parts ? open_part(tables, parts) : &tables->capture->reader;
}

struct table *tables_make(struct tables *tables, const struct view *view)
{
	const struct reader *reader = part_of(tables, view);
	char why[FAILURE_TEXT_BYTES];
	struct table *table;

	if (!reader)
		return NULL;
	tables->options.filter = tables_filter(tables);
	table = view->table(reader, &tables->options);
	if (tables->where && view == tables->chosen && !where_keep(tables->where, table, why, sizeof why)) {
		tables->code = fail(EXIT_USAGE, "%s", why);
		return table_free(table);
	}
	return table;
}

const struct filter *tables_filter(const struct tables *tables)
{
	return filter_parts(&tables->filter) ? &tables->filter : NULL;
}

unsigned tables_cuts(const struct tables *tables)
{
	const struct filter *filter = &tables->filter;

	return (tables->options.step ? CUT_STEP : 0) | (filter->range ? CUT_RANGE : 0) |
	       (filter->phases ? CUT_PHASE : 0) | (filter->thread >= 0 ? CUT_THREAD : 0) |
	       (filter->device >= 0 ? CUT_DEVICE : 0) | (filter->stream >= 0 ? CUT_STREAM : 0);
}

bool tables_left_out(const struct tables *tables, const struct view *view)
{
	return tables_cuts(tables) & ~view->cuts && !(view->flags & VIEW_OF_ALL);
}

void tables_title(const struct tables *tables, const char *text)
{
	printf("\n%s%s%s\n", screen_bold(&tables->screen), text, screen_plain(&tables->screen));
}

static void print_rows(struct tables *tables, const struct view *view, const struct table *table, size_t limit)
{
	char *text;

	if (table_rows(table)) {
		table_print(table, &tables->screen, view->flags & (VIEW_ALWAYS | VIEW_WHOLE) ? 0 : limit);
	} else if (view_recorded(&tables->capture->reader, view)) {
		puts("  none");
	} else {
		text = view_absence(&tables->capture->reader, view);
		fputs("  ", stdout);
		print_wrapped(stdout, text, 2, tables->screen.width ? tables->screen.width - 2 : SIZE_MAX, 0);
		putchar('\n');
		free(text);
	}
}

void tables_print(struct tables *tables, const struct view *view, size_t limit)
{
	const struct reader *reader = &tables->capture->reader;
	bool several = !tables->chosen, refused = report_refused(reader, view->activities);
	struct table *table;
	char heading[96];

	if (tables_left_out(tables, view))
		return;
	/* It is said only once that nothing of the device was recorded. */
	if (several && view->flags & VIEW_DEVICE && !(view->flags & VIEW_TELLS) && !refused &&
	    !view_recorded(reader, view))
		return;
	tables->options.limit = limit;
	table = tables_make(tables, view);
	if (!table)
		return;
	if (table_rows(table) || refused || !(several && view->flags & VIEW_RARE)) {
		snprintf(heading, sizeof heading, "%s%s", view->heading,
			 view->flags & VIEW_DEVICE && tables->simulated ? " (simulated GPU)" : "");
		tables_title(tables, heading);
		print_rows(tables, view, table, limit);
	}
	table_free(table);
}
