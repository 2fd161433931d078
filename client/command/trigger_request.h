/* trigger_request.h - what `profd trigger`, and `profd run` where it is to record, ask of the daemons. */
#ifndef PROFD_CLIENT_COMMAND_TRIGGER_REQUEST_H
#define PROFD_CLIENT_COMMAND_TRIGGER_REQUEST_H

#include "client/link/connection.h"
#include "client/verbs/arguments.h"

/* Says what does not go together of the schedule and of what is recorded, which both verbs have: EXIT_USAGE after the sentence, else
 * EXIT_DONE. */
int trigger_check(const struct arguments *a);
/* The window of time that is recorded, in ns; 0 = steps are. */
int64_t trigger_window(const struct arguments *a);
/* The batches that are the steps (word of enum batches), as --unit and --phase say; "": others are. */
const char *trigger_batches(const struct arguments *a);
/* Are these epochs? */
bool trigger_counts_epochs(const struct arguments *a);
/* After how many ns the daemon ends the captures. */
int64_t trigger_timeout(const struct arguments *a);
/* Makes the request for each daemon. Pids are asked of the daemon with which each is registered. What stays NULL is not
 * sent. */
void trigger_requests(const struct arguments *a, struct daemons *daemons, cJSON *requests[DAEMONS_MAX]);
/* `profd run`: the request for what this process becomes and starts; the caller's to delete. NULL: the command line asks for no recording. */
cJSON *trigger_request_ahead(const struct arguments *a);

#endif
