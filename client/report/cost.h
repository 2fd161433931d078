/* cost.h - what a capture cost the job, from its summary alone. */
#ifndef PROFD_CLIENT_REPORT_COST_H
#define PROFD_CLIENT_REPORT_COST_H

#include "client/ui/table.h"

/* One row, like that of report_cost(). */
struct table *report_cost_summary(const cJSON *summary);

#endif
