/* losses.h - which collectors ran in a capture. */
#ifndef PROFD_CLIENT_REPORT_LOSSES_H
#define PROFD_CLIENT_REPORT_LOSSES_H

#include "client/reader/reader.h"
#include "client/ui/table.h"

struct table *report_collectors(const struct reader *reader);

#endif
