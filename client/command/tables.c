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

/* What the view can be cut by. */
static unsigned parts_of(const struct tables *tables, const struct view *view)
{
	return filter_parts(&tables->filter) &
	       ((view->flags & VIEW_BY_HOST ? FILTER_HOST : 0) | (view->flags & VIEW_BY_DEVICE ? FILTER_DEVICE : 0));
}

/* The capture, or the part of it that the view is to tell of. */
static const struct reader *part_of(struct tables *tables, const struct view *view)
{
	unsigned parts = parts_of(tables, view);

	if (!parts)
		return &tables->capture->reader;
	if (!tables->opened[parts]) {
		struct breakdown_capture none;

		/* It is kept in the tables. */
		if (tables->filter.phases)
			verdict_intervals(&tables->capture->reader, &tables->options, &none);
		tables->code = filter_open(&tables->capture->reader, &tables->filter, parts, &tables->kept.capture,
					   &tables->parts[parts]);
		if (tables->code != EXIT_DONE)
			return NULL;
		tables->opened[parts] = true;
	}
	return &tables->parts[parts].reader;
}

/* Rows of no device stay: they are not another's. */
static bool of_device(const struct table *table, size_t row, void *context)
{
	const struct tables *tables = context;
	double device;

	return !table_figure(table, row, table_find(table, "device"), &device) ||
	       (int64_t)device == tables->filter.device;
}

struct table *tables_make(struct tables *tables, const struct view *view)
{
	const struct reader *reader = part_of(tables, view);
	char why[FAILURE_TEXT_BYTES];
	struct table *table;

	if (!reader)
		return NULL;
	tables->options.filter = parts_of(tables, view) ? &tables->filter : NULL;
	table = view->table(reader, &tables->options);
	if (tables->filter.device >= 0 && !(view->flags & VIEW_BY_DEVICE) &&
	    table_find(table, "device") < table_columns(table))
		table_keep(table, of_device, tables);
	if (tables->where && view == tables->chosen && !where_keep(tables->where, table, why, sizeof why)) {
		tables->code = fail(EXIT_USAGE, "%s", why);
		return table_free(table);
	}
	return table;
}

/* Has it a column that tells devices apart? Asked of a table without rows it would be no; so it is known by name. */
static bool tells_devices(const struct view *view)
{
	return view->flags & VIEW_BY_DEVICE || strcmp(view->name, "breakdown") == 0 ||
	       strcmp(view->name, "memory") == 0 || strcmp(view->name, "overlap") == 0 ||
	       strcmp(view->name, "idle") == 0;
}

const char *tables_uncut(const struct tables *tables, const struct view *view, char *to, size_t bytes)
{
	const struct {
		const char *option;
		bool given, cuts;
	} options[] = {
		{"--step", tables->options.step != 0, !(view->flags & VIEW_OF_ALL)},
		{"--range", tables->filter.range != NULL, view->flags & VIEW_BY_HOST},
		{"--phase", tables->filter.phases != 0, view->flags & VIEW_BY_HOST},
		{"--thread", tables->filter.thread >= 0, view->flags & VIEW_BY_HOST},
		{"--device", tables->filter.device >= 0, tells_devices(view)},
		{"--stream", tables->filter.stream >= 0, view->flags & VIEW_BY_DEVICE},
	};
	size_t n = 0;

	to[0] = '\0';
	for (size_t i = 0; i < sizeof options / sizeof *options; i++)
		if (options[i].given && !options[i].cuts && n < bytes)
			n += (size_t)snprintf(to + n, bytes - n, "%s%s", n ? ", " : "", options[i].option);
	return to;
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
	char heading[96], uncut[64];

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
		if (*tables_uncut(tables, view, uncut, sizeof uncut) && !(view->flags & VIEW_ALWAYS))
			printf("  of the whole capture: %s cannot cut this table\n", uncut);
		print_rows(tables, view, table, limit);
	}
	table_free(table);
}
