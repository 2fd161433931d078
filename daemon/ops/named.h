/* named.h - the one process that a request names by its pid. Loop's thread. */
#ifndef PROFD_DAEMON_OPS_NAMED_H
#define PROFD_DAEMON_OPS_NAMED_H

struct conn;
struct process;

/* The process of the request's "pid"; NULL where the client may not have it: then the error has been sent, and noted in
 * the audit log under `action`, the op's word. */
struct process *named_process(struct conn *conn, const char *action);
/* Sends {"row":"process", PROCESS}. */
void process_row(struct conn *conn, const struct process *process);

#endif
