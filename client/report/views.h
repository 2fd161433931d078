/* views.h - the table of views (views.def): what `profd show` prints of a capture file. */
#ifndef PROFD_CLIENT_REPORT_VIEWS_H
#define PROFD_CLIENT_REPORT_VIEWS_H

#include "client/reader/reader.h"
#include "client/ui/table.h"
#include "cuts.h"

struct filter;
struct verdict_kept;

struct report_options {
	const char *sort_by; /* one of torch.profiler's keys; NULL: the table's own default */
	int64_t step;	     /* ordinal; 0 = all */
	int64_t finding;     /* of the verdict: its intervals; 0 = the verdict itself */
	bool shapes;	     /* operators: tell input shapes apart */
	int64_t stack;	     /* operators: tell the innermost so many frames of their Python stacks apart; 0: none */
	const struct filter *filter; /* what is shown of what was done, and where; NULL: all */
	bool alone;		     /* no other table is shown */
	bool first_screen; /* ranges: without those that torch.profiler makes of each step; kernels: without how they were launched */
	size_t limit;	      /* rows that are shown at the most; 0 = all: for tables that choose their rows by it */
	const cJSON *summary; /* the daemon's SUMMARY of the capture; NULL: there is none */
	struct verdict_kept
		*kept; /* a breakdown that was computed, for the next table (verdict.h); NULL: none is kept */
};

/* Each view's function. It reads the finished capture file. The table is the caller's to free. */
#define VIEW(name, ...) struct table *report_##name(const struct reader *reader, const struct report_options *options);
#include "views.def"

enum view_flag {
	VIEW_DEVICE = 1,    /* what the devices did, or was done to them */
	VIEW_RARE = 2,	    /* not worth a line among the others where it is empty */
	VIEW_SINGLE = 4,    /* one row: an object in JSON */
	VIEW_TELLS = 8,	    /* among the others it tells, for all views of the device, that nothing was recorded */
	VIEW_ALWAYS = 16,   /* qualifies the others: shown below each of them, with all its rows */
	VIEW_WHOLE = 64,    /* with all its rows, also where a table is cut otherwise */
	VIEW_LOOKED = 128,  /* what the agent saw of the processes that the job had forked */
	VIEW_APART = 32,    /* is shown without those that qualify the others */
	VIEW_ITSELF = 256,  /* cuts itself, by options->filter: what it is made of is the whole capture's */
	VIEW_NESTED = 512,  /* its JSON is no list of rows */
	VIEW_OF_ALL = 1024, /* tells of the recording itself: shown also where the other tables are cut */
	VIEW_BLOCKS = 8192, /* takes blocks that are told apart */
	VIEW_LATER = 4096,  /* reads the table of its own name, which files of earlier releases do not have */
	VIEW_USED = 2048,   /* how profd used CUPTI: it did not where another profiler wrote the trace */
};

struct view {
	const char *name, *key, *heading;
	unsigned fills, flags;
	int64_t activities;
	unsigned cuts; /* enum view_cut */
	struct table *(*table)(const struct reader *reader, const struct report_options *options);
};

const struct view *view_table(size_t *ret_count);
/* NULL where there is none. */
const struct view *view_find(const char *name);
/* Why the view is not shown of a part that these options (enum view_cut) name. False: it can be. */
bool view_refuses(const struct view *view, unsigned cuts, char *why, size_t bytes);
/* Has a collector run that fills the view, and has CUPTI recorded its kinds? */
bool view_recorded(const struct reader *reader, const struct view *view);
/* "not recorded", and why. To be freed. */
char *view_absence(const struct reader *reader, const struct view *view);

#endif
