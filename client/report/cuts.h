/* cuts.h - the options of `profd show` that show only a part of a capture. A column of views.def says which of them
 * each view can take. */
#ifndef PROFD_CLIENT_REPORT_CUTS_H
#define PROFD_CLIENT_REPORT_CUTS_H

#include <stddef.h>

enum view_cut {
	CUT_STEP = 1,
	CUT_RANGE = 2,
	CUT_PHASE = 4,
	CUT_THREAD = 8,
	CUT_DEVICE = 16,
	CUT_STREAM = 32,
	CUT_HOST = CUT_RANGE | CUT_PHASE | CUT_THREAD, /* what the host did, and what it launched */
	CUT_PLACE = CUT_DEVICE | CUT_STREAM,	       /* where something ran */
};

#define CUT_COUNT 6

/* The option of bit 0 to CUT_COUNT - 1, without its dashes. */
const char *cut_option(unsigned bit);
/* "--step, --range and --phase"; "" if there is none. Returns `to`. */
const char *cuts_text(unsigned cuts, char *to, size_t bytes);

#endif
