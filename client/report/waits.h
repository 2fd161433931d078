/* waits.h - idle time of devices that came after a wait, by wait. */
#ifndef PROFD_CLIENT_REPORT_WAITS_H
#define PROFD_CLIENT_REPORT_WAITS_H

#include "client/reader/reader.h"

#include "store/breakdown/load.h"

#include <cjson/cJSON.h>

struct waits {
	struct wait *list; /* sorted by device and step */
	size_t count, room;
};

/* From a computed breakdown (verdict_intervals). Call waits_free() afterwards. */
struct waits waits_of(const struct breakdown_capture *capture);
/* The waits of a device in a step, the one with most time first: call, operator (null: in none), ns. They add up to
 * the step's `after_sync`. */
cJSON *waits_json(const struct waits *waits, const struct reader *reader, size_t device, size_t step);
void waits_free(struct waits *waits);

#endif
