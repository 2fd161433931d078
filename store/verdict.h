/* verdict.h - the breakdown and the verdict of a capture that is being finished: computed once, and put into its tables. */
#ifndef PROFD_STORE_VERDICT_H
#define PROFD_STORE_VERDICT_H

#include "derive.h"

#include <cjson/cJSON.h>

/* Computes both, within what `watch` and the store's memory allow, and writes them in the open transaction. If that
 * is not enough, the capture is good without them: whoever asks later computes them, and `abstains` says why they are
 * missing. Returns the verdict as JSON (findings/json.h), which the caller owns; NULL: out of memory. line: the
 * verdict in one line. */
cJSON *verdict_run(struct store *store, const struct store_watch *watch, struct derived *derived, bool cramped,
		   char line[STORE_SENTENCE_BYTES]);

#endif
