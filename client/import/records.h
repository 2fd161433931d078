/* records.h - what an event of a trace is in a capture: one kind a function, and nothing of the order in which they come. */
#ifndef PROFD_CLIENT_IMPORT_RECORDS_H
#define PROFD_CLIENT_IMPORT_RECORDS_H

#include "kineto.h"
#include "strings.h"

#include "proto/events.h"

/* The record of an event that has times, but for when it begins, its step, and what lies in what. */
void record_of(const struct kineto_event *event, struct strings *strings, union event_any *ret);
/* A call of a torch.nn.Module, which has no duration yet. */
void record_module(const struct kineto_event *event, struct strings *strings, union event_any *ret);
void record_device(const struct kineto_device *device, struct strings *strings, union event_any *ret);

#endif
