/* summary.h - makes the JSON text that op "summary" serves (docs/protocol.md), out of the totals that derive has written. The
 * catalogue adds what only it knows. */
#ifndef PROFD_STORE_SUMMARY_H
#define PROFD_STORE_SUMMARY_H

#include "derive.h"

#include <cjson/cJSON.h>

/* Returns the text, which the caller frees; NULL where out of memory or the file cannot be read. Members about devices are null
 * where the device side was not recorded or not derived. verdict: of verdict_run(), taken; may be NULL. */
char *summary_text(struct store *store, const struct store_ending *ending, const struct derived *derived,
		   uint64_t derive_ns, cJSON *verdict);

#endif
