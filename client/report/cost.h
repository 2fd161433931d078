/* cost.h - what a capture cost the job, by its summary alone. */
#ifndef PROFD_CLIENT_REPORT_COST_H
#define PROFD_CLIENT_REPORT_COST_H

#include "client/ui/table.h"

/* One row, as report_cost() has it. */
struct table *report_cost_summary(const cJSON *summary);

#endif
