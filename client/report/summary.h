/* summary.h - the tables of a daemon's SUMMARY of a capture: its first rows, with the same shares as the tables of
 * the file. */
#ifndef PROFD_CLIENT_REPORT_SUMMARY_H
#define PROFD_CLIENT_REPORT_SUMMARY_H

#include "client/ui/table.h"

struct table *summary_steps(const cJSON *summary);
struct table *summary_operators(const cJSON *summary);
/* wall: ns of all recorded steps together; 0 = not known. */
struct table *summary_ranges(const cJSON *summary, int64_t wall);
/* For the device side; without rows if the summary knows none. */
struct table *summary_kernels(const cJSON *summary);
struct table *summary_copies(const cJSON *summary);
struct table *summary_dropped(const cJSON *summary);
/* The self time of all operators, ns; -1: the summary does not tell. */
int64_t summary_self_cpu(const cJSON *summary);
/* How busy the devices were in one of the summary's steps, or (NULL) in those that it lists: percent of the wall time
 * times the number of devices; -1: not recorded. */
double summary_busy_percent(const cJSON *summary, const cJSON *only);

#endif
