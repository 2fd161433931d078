/* named.h - the one process that a request names by its pid, and the captures that it names. Loop's thread. */
#ifndef PROFD_DAEMON_OPS_NAMED_H
#define PROFD_DAEMON_OPS_NAMED_H

#include <stdbool.h>

struct capture;
struct conn;
struct process;

/* The process of the request's "pid"; NULL if there is none, or the client may not see it: then the error has been
 * sent; the latter case is in the audit log under `action`, the op's word. */
struct process *named_process(struct conn *conn, const char *action);
/* Does the request name this capture: by its "capture_id", its "trigger_id", or its process (`process`: of named_process())? A request
 * without any of these names none. */
bool named_capture(const struct conn *conn, const struct capture *capture, const struct process *process);
/* Sends {"row":"process", PROCESS}. */
void process_row(struct conn *conn, const struct process *process);

#endif
