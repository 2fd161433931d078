/* verdict_json.h - the views of the verdict as JSON of their own: not rows, but what stands in store/findings/json.h and docs/breakdown.md. */
#ifndef PROFD_CLIENT_REPORT_VERDICT_JSON_H
#define PROFD_CLIENT_REPORT_VERDICT_JSON_H

#include "views.h"

#include <cjson/cJSON.h>

/* {"steps": [...]}: docs/breakdown.md. */
cJSON *breakdown_json(const struct reader *reader, const struct report_options *options);
/* {"verdict", "abstains", ..., "findings": [...]}: store/findings/json.h, with intervals and SQL. */
cJSON *verdict_json(const struct reader *reader, const struct report_options *options);

#endif
