/* verdict.h - the verdict of a capture: read from its file, and as lines of text. */
#ifndef PROFD_CLIENT_REPORT_VERDICT_H
#define PROFD_CLIENT_REPORT_VERDICT_H

#include "client/reader/reader.h"
#include "views.h"

#include "store/findings/findings.h"
#include "store/findings/row_lines.h"

#include <cjson/cJSON.h>

/* A computed breakdown, which all tables of a capture share. Zeroed at first; verdict_forget() at the end. */
struct verdict_kept {
	bool computed;
	struct breakdown_capture capture;
};
void verdict_forget(struct verdict_kept *kept);

/* If the file is damaged, these functions end the program with a sentence. They return options->kept, or *own. Give
 * *own to breakdown_capture_free() in either case. */

/* The breakdown, computed: with its intervals, and with what each thread did. */
const struct breakdown_capture *verdict_intervals(const struct reader *reader, const struct report_options *options,
						  struct breakdown_capture *own);
/* The breakdown from the file: only steps and rows. It is computed if an earlier release wrote the file. */
const struct breakdown_capture *verdict_rows(const struct reader *reader, const struct report_options *options,
					     struct breakdown_capture *own);

/* For each row of the breakdown that verdict_rows() returned: the line of Python that has most of it. For one step,
 * if options->step is set. Call row_lines_free() afterwards. */
void verdict_lines(const struct reader *reader, const struct report_options *options,
		   const struct breakdown_capture *capture, struct row_lines *ret);
/* The lines for the causes of a device's idle time, by its index in the breakdown; NULL: not known. */
const struct row_line *verdict_idle_lines(const struct row_lines *lines, size_t device);

/* The verdict, from the file or computed in the same way; for one step, if options->step is set. */
void verdict_read(const struct reader *reader, const struct report_options *options, struct findings *ret);

/* The verdict (store/findings/json.h; also `verdict` of a summary) as text without colour: three or four lines for
 * each finding, each with its newline, of at most `width` columns (0: 100). `capture`: its name in "profd show NAME
 * --finding N"; NULL: no such hint. The caller frees it. */
char *verdict_text(const cJSON *verdict, const char *capture, int width);

#endif
