/* verdict.h - the verdict of a capture: read from it, and as lines of text. */
#ifndef PROFD_CLIENT_REPORT_VERDICT_H
#define PROFD_CLIENT_REPORT_VERDICT_H

#include "client/reader/reader.h"
#include "views.h"

#include "store/findings/findings.h"
#include "store/findings/row_lines.h"

#include <cjson/cJSON.h>

/* A breakdown that was computed: all tables of a capture share it. Zeroed at first, verdict_forget() at the end. */
struct verdict_kept {
	bool computed;
	struct breakdown_capture capture;
};
void verdict_forget(struct verdict_kept *kept);

/* Of these a damaged file ends the program with a sentence. What they return is options->kept, or *own, which
 * breakdown_capture_free() takes in either case. */

/* The breakdown, computed: with its intervals, and what each thread did. */
const struct breakdown_capture *verdict_intervals(const struct reader *reader, const struct report_options *options,
						  struct breakdown_capture *own);
/* The breakdown as it stands in the file, steps and rows alone; computed where an earlier release wrote the file. */
const struct breakdown_capture *verdict_rows(const struct reader *reader, const struct report_options *options,
					     struct breakdown_capture *own);

/* At which line of Python most of each row was, of the breakdown that verdict_rows() returned; of one step where options->step is set. row_lines_free()
 * afterwards. */
void verdict_lines(const struct reader *reader, const struct report_options *options,
		   const struct breakdown_capture *capture, struct row_lines *ret);
/* The causes of idle time of a device, by its index in the breakdown; NULL: their lines are not known. */
const struct row_line *verdict_idle_lines(const struct row_lines *lines, size_t device);

/* The verdict, in the same way; of one step where options->step is set. */
void verdict_read(const struct reader *reader, const struct report_options *options, struct findings *ret);

/* The verdict (store/findings/json.h; also `verdict` of a summary) as text: for each finding three or four lines, each with its newline, without
 * colour, at most `width` columns (0: 100). `capture`: its name in "profd show NAME --finding N"; NULL: no such hint. To be freed. */
char *verdict_text(const cJSON *verdict, const char *capture, int width);

#endif
