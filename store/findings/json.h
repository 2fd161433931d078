/* json.h - the verdict as JSON: in the summary, in `profd show`, on pages. */
#ifndef PROFD_STORE_FINDINGS_JSON_H
#define PROFD_STORE_FINDINGS_JSON_H

#include "findings.h"

#include <cjson/cJSON.h>

/* {"verdict": one line, "abstains": why there is none (null: there is), "device", "steps" (judged), "step_ns", "min_step_ns", "max_step_ns",
 * "findings": [{"finding": word, "title", "what", "subject", "device", "step", "ns", "min_ns", "max_ns", "share", "min", "max", "win_ns", "win",
 * "evidence", "try", "intervals_total"}]}. With `db` each finding has "sql" and "intervals" too: [{"step", "start_ns", "end_ns", "thread", "name",
 * "operator", "file", "line", "function", "module"}] (places.h; null: not known). Shares are 0 to 1. NULL: no memory. */
cJSON *findings_json(const struct findings *findings, sqlite3 *db);

#endif
