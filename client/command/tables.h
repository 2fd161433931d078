/* tables.h - the tables of one capture, as `profd show` and `profd trigger` print them: cut to a part, to rows, to the terminal. */
#ifndef PROFD_CLIENT_COMMAND_TABLES_H
#define PROFD_CLIENT_COMMAND_TABLES_H

#include "client/reader/capture.h"
#include "client/report/filter.h"
#include "client/report/verdict.h"
#include "client/report/views.h"
#include "client/ui/screen.h"
#include "client/ui/where.h"

struct tables {
	struct capture *capture;
	const char *which; /* what the user calls it; NULL: its id */
	struct report_options options;
	struct verdict_kept kept;
	struct screen screen;
	struct filter filter;
	struct where *where;	   /* of the chosen view; NULL: all rows */
	const struct view *chosen; /* NULL: several are shown */
	size_t limit;		   /* rows of a table; 0 = all */
	bool simulated;		   /* the devices were simulated */
	int code;		   /* EXIT_DONE, or why a table could not be made: the sentence has been printed */
	struct filtered parts[4];  /* by enum filter_part; opened when they are needed */
	bool opened[4];
};

/* Of a capture that is open; everything else may be set afterwards. */
void tables_init(struct tables *tables, struct capture *capture);
void tables_deinit(struct tables *tables);

/* The rows of a view, cut as the options want it; to be freed. NULL: tables->code says why there is none. */
struct table *tables_make(struct tables *tables, const struct view *view);
/* NULL where it filters nothing. */
const struct filter *tables_filter(const struct tables *tables);
/* The options that cut: enum view_cut. */
unsigned tables_cuts(const struct tables *tables);
/* One of the options cannot cut it, so it would tell of something else than the tables beside it. */
bool tables_left_out(const struct tables *tables, const struct view *view);
/* Prints a view under its heading. `limit`: rows, 0 = all. One that has no rows, and is not worth a line, and one that is left out, leave no
 * trace. */
void tables_print(struct tables *tables, const struct view *view, size_t limit);
/* A heading alone. */
void tables_title(const struct tables *tables, const char *text);

#endif
