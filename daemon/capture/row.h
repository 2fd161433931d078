/* row.h - what clients are told of a capture: CAPTURE of docs/protocol.md. Loop's thread. */
#ifndef PROFD_DAEMON_CAPTURE_ROW_H
#define PROFD_DAEMON_CAPTURE_ROW_H

#include "proto/base/facts.h"

#include <cjson/cJSON.h>

struct server;

/* Adds the members, with the pid by which `viewer`, a pid namespace, knew the process. */
void capture_describe(const struct server *server, uint64_t viewer, const struct capture_facts *facts, cJSON *row);

#endif
