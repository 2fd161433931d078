/* verdict_json.h - the views of the verdict as JSON. They are no lists of rows: store/findings/json.h and
 * docs/breakdown.md describe them. */
#ifndef PROFD_CLIENT_REPORT_VERDICT_JSON_H
#define PROFD_CLIENT_REPORT_VERDICT_JSON_H

#include "views.h"

#include "store/findings/row_lines.h"

#include <cjson/cJSON.h>

/* {"steps": [...]}: docs/breakdown.md. */
cJSON *breakdown_json(const struct reader *reader, const struct report_options *options);
/* "lines" of the same, for the steps [first, last) and the devices that `filter` leaves: the line of each row that
 * has time in them. null: there are no stacks. */
cJSON *row_lines_json(const struct reader *reader, const struct filter *filter, const struct breakdown_capture *capture,
		      const struct row_lines *lines, size_t first, size_t last);
/* {"verdict", "abstains", ..., "findings": [...]}: store/findings/json.h, with intervals and SQL. */
cJSON *verdict_json(const struct reader *reader, const struct report_options *options);

#endif
