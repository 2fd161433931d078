/* trigger_request.h - what `profd trigger` asks of the daemons. */
#ifndef PROFD_CLIENT_COMMAND_TRIGGER_REQUEST_H
#define PROFD_CLIENT_COMMAND_TRIGGER_REQUEST_H

#include "client/link/connection.h"
#include "client/verbs/arguments.h"

/* The window of time that is recorded, in ns; 0 = steps are. */
int64_t trigger_window(const struct arguments *a);
/* After how many ns the daemon ends the captures. */
int64_t trigger_timeout(const struct arguments *a);
/* Makes the request for each daemon. Pids are asked of the daemon with which each is registered. What stays NULL is not
 * sent. */
void trigger_requests(const struct arguments *a, struct daemons *daemons, cJSON *requests[DAEMONS_MAX]);

#endif
