/* collective.h - what torch says of an operation of several processes, in the arguments of its record_param_comms. */
#ifndef PROFD_CLIENT_IMPORT_COLLECTIVE_H
#define PROFD_CLIENT_IMPORT_COLLECTIVE_H

#include "kineto.h"
#include "strings.h"

#include "proto/events.h"

#include <stdbool.h>

/* The record of such an operator, but for its time, its step, and the operator's id. False: the event is none, or tells nothing. */
bool collective_of(const struct kineto_event *event, struct strings *strings, union event_any *ret);

#endif
