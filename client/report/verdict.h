/* verdict.h - the verdict of a capture: read from it, and as lines of text. */
#ifndef PROFD_CLIENT_REPORT_VERDICT_H
#define PROFD_CLIENT_REPORT_VERDICT_H

#include "client/reader/reader.h"
#include "views.h"

#include "store/findings.h"

#include <cjson/cJSON.h>

/* The breakdown and the verdict: of one step where options->step is set. A damaged file ends the program with a sentence.
 * breakdown_capture_free() afterwards. */
void verdict_load(const struct reader *reader, const struct report_options *options, struct breakdown_capture *capture,
		  struct findings *ret);

/* The breakdown alone, computed: with its intervals, and what each thread did. */
void verdict_intervals(const struct reader *reader, struct breakdown_capture *capture);
/* The breakdown alone: as it stands in the file, otherwise computed. capture: steps and rows alone. */
void verdict_rows(const struct reader *reader, struct breakdown_capture *capture);
/* The same as it stands in the file, where the release that wrote it put it there; otherwise computed. capture: steps and rows alone. */
void verdict_read(const struct reader *reader, const struct report_options *options, struct breakdown_capture *capture,
		  struct findings *ret);

/* The verdict (store/findings_json.h; also `verdict` of a summary) as text: for each finding three or four lines, each with its newline, without
 * colour, at most `width` columns (0: 100). `capture`: its name in "profd show NAME --finding N"; NULL: no such hint. To be freed. */
char *verdict_text(const cJSON *verdict, const char *capture, int width);

#endif
