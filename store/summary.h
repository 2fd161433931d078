/* summary.h - makes the JSON text of op "summary" (docs/protocol.md) from the totals that derive has written. The
 * catalogue adds what only it knows. */
#ifndef PROFD_STORE_SUMMARY_H
#define PROFD_STORE_SUMMARY_H

#include "derive.h"

#include <cjson/cJSON.h>

/* Returns the text, which the caller frees; NULL: out of memory, or the file cannot be read. Members about devices
 * are null if the device side was not recorded or not derived. verdict: from verdict_run(); owned from now on; may be
 * NULL. */
char *summary_text(struct store *store, const struct store_ending *ending, const struct derived *derived,
		   uint64_t derive_ns, cJSON *verdict);

#endif
