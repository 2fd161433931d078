/* dummy.c - the number of steps. The test of the recipes. */
#include "query.h"
#include "views.h"

static const struct column columns[] = {
	{"what", "WHAT", COLUMN_TEXT, 0},
	{"count", "COUNT", COLUMN_COUNT, 0},
};

struct table *report_dummy(const struct reader *reader, const struct report_options *options)
{
	static const struct report_shape shape = {columns, 2, NULL, 0, "1", NULL, NULL};

	return report_query(reader, options, &shape, "SELECT 'dummy steps', count(*) FROM steps WHERE" REPORT_STEP);
}
