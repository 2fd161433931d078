/* verdict_json.h - the views of the verdict as JSON of their own: not rows, but what stands in store/findings/json.h and docs/breakdown.md. */
#ifndef PROFD_CLIENT_REPORT_VERDICT_JSON_H
#define PROFD_CLIENT_REPORT_VERDICT_JSON_H

#include "views.h"

#include "store/findings/row_lines.h"

#include <cjson/cJSON.h>

/* {"steps": [...]}: docs/breakdown.md. */
cJSON *breakdown_json(const struct reader *reader, const struct report_options *options);
/* "lines" of it, of steps first to before last and the devices that `filter` names: the line of each row that has time in them. null: without stacks. */
cJSON *row_lines_json(const struct reader *reader, const struct filter *filter, const struct breakdown_capture *capture,
		      const struct row_lines *lines, size_t first, size_t last);
/* {"verdict", "abstains", ..., "findings": [...]}: store/findings/json.h, with intervals and SQL. */
cJSON *verdict_json(const struct reader *reader, const struct report_options *options);

#endif
