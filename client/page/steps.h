/* steps.h - where the time went, read once for the page's breakdown and its timeline. */
#ifndef PROFD_CLIENT_PAGE_STEPS_H
#define PROFD_CLIENT_PAGE_STEPS_H

#include "client/reader/reader.h"
#include "client/report/verdict.h"

#include <cjson/cJSON.h>

/* All that is known of time in rows: the breakdown, and its pieces. */
struct page_time {
	struct verdict_kept kept; /* for the tables, too */
	struct strip *strip;
	int64_t base; /* what times are counted from */
};

/* Reads it. A file that is not what it says ends the program with a sentence. */
void page_time_load(struct page_time *ret, const struct reader *reader);
void page_time_free(struct page_time *time);

/* The verdict (store/findings/json.h), without its intervals. To be deleted. */
cJSON *page_verdict(struct page_time *time, const struct reader *reader);
/* Where the rows of all steps together were: as profd show --by breakdown has it in "lines". To be deleted. */
cJSON *page_lines(struct page_time *time, const struct reader *reader);
/* Adds the breakdown of each step, and what its rows are called. */
void page_steps(cJSON *data, const struct page_time *time);

#endif
