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
	int64_t finding;     /* its number in the verdict: shows its intervals; 0 = the whole verdict */
	bool shapes;	     /* operators: tell input shapes apart */
	int64_t stack;	     /* operators: tell the innermost so many frames of their Python stacks apart; 0: do not */
	const struct filter *filter; /* which part is shown; NULL: everything */
	bool alone;		     /* no other table is shown */
	bool first_screen; /* ranges: without torch.profiler's ranges of steps; kernels: without how they were launched */
	size_t limit;	   /* the most rows that are shown; 0 = all: for tables that choose their rows by it */
	const cJSON *summary;	   /* the daemon's SUMMARY of the capture; NULL: there is none */
	struct verdict_kept *kept; /* keeps a computed breakdown for the next table (verdict.h); NULL: none is kept */
};

/* The function of each view. It reads the finished capture file. The caller frees the table. */
#define VIEW(name, ...) struct table *report_##name(const struct reader *reader, const struct report_options *options);
#include "views.def"

enum view_flag {
	VIEW_DEVICE = 1,    /* what the devices did, or what was done to them */
	VIEW_RARE = 2,	    /* if it is empty, it is not worth a line among other tables */
	VIEW_SINGLE = 4,    /* one row: an object in JSON */
	VIEW_TELLS = 8,	    /* among other tables it says, for all views of the device, that nothing was recorded */
	VIEW_ALWAYS = 16,   /* explains other tables: shown below each of them, with all its rows */
	VIEW_WHOLE = 64,    /* with all its rows, even if tables have a limit */
	VIEW_LOOKED = 128,  /* figures that the agent saw of processes that the job had forked */
	VIEW_APART = 32,    /* shown without the tables that explain others */
	VIEW_ITSELF = 256,  /* applies options->filter itself: it reads the whole capture */
	VIEW_NESTED = 512,  /* its JSON is not a list of rows */
	VIEW_OF_ALL = 1024, /* about the recording itself: shown even if other tables are cut */
	VIEW_BLOCKS = 8192, /* needs blocks that are told apart */
	VIEW_LATER = 4096,  /* reads the table of its own name, which files of earlier releases lack */
	VIEW_USED = 2048,   /* how profd used CUPTI: not known if another profiler wrote the trace */
};

struct view {
	const char *name, *key, *heading;
	unsigned fills, flags;
	int64_t activities;
	unsigned cuts; /* enum view_cut */
	struct table *(*table)(const struct reader *reader, const struct report_options *options);
};

const struct view *view_table(size_t *ret_count);
/* NULL: there is no such view. */
const struct view *view_find(const char *name);
/* Says why the view cannot show a part that these options (enum view_cut) name. False: it can. */
bool view_refuses(const struct view *view, unsigned cuts, char *why, size_t bytes);
/* Did a collector run that fills the view, and did CUPTI record its kinds? */
bool view_recorded(const struct reader *reader, const struct view *view);
/* "not recorded", and why. The caller frees it. */
char *view_absence(const struct reader *reader, const struct view *view);

#endif
