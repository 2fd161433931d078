/* history.h - the catalogue's rows of triggers and of processes that have registered; the newest ones are kept. The
 * catalogue's thread. */
#ifndef PROFD_DAEMON_CATALOGUE_HISTORY_H
#define PROFD_DAEMON_CATALOGUE_HISTORY_H

#include "proto/base/facts.h"

struct catalogue;

uint64_t catalogue_last_trigger(struct catalogue *catalogue);
/* 0 or a negative errno. */
int catalogue_put_trigger(struct catalogue *catalogue, uint64_t number, uid_t uid, pid_t pid, const char *request);
int catalogue_put_process(struct catalogue *catalogue, const struct identity *who);
int catalogue_process_gone(struct catalogue *catalogue, pid_t pid, uint64_t start_time);
/* A row has been added to `processes` or `triggers`: every now and then deletes the oldest rows beyond the number that
 * is kept. */
void catalogue_history_grown(struct catalogue *catalogue);

#endif
