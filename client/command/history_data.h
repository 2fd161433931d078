/* history_data.h - what `profd history` prints for programs: CSV and JSON. */
#ifndef PROFD_CLIENT_COMMAND_HISTORY_DATA_H
#define PROFD_CLIENT_COMMAND_HISTORY_DATA_H

#include "history_names.h"

void history_print_csv(const struct series *series, size_t count);
void history_print_json(const struct series *series, size_t count, const char *label);

#endif
