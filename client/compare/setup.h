/* setup.h - in what two sides differ besides their times: a difference there may be the whole reason. One thread. */
#ifndef PROFD_CLIENT_COMPARE_SETUP_H
#define PROFD_CLIENT_COMPARE_SETUP_H

#include "side.h"

#include <cjson/cJSON.h>

/* [{"what": "torch", "a": "2.4.1", "b": "2.15.0", "sentence": "..."}, ...] of what differs, the weightiest first; a or b null: not
 * known, or no single value. To be deleted. */
cJSON *setup_differences(const struct side *a, const struct side *b);

/* What a side was: {"name", "host", "torch", "gpu", ...}, null where it is not known, all values with commas between where captures
 * of it differ. To be deleted. */
cJSON *setup_facts(const struct side *side);

#endif
