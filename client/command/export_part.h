/* export_part.h - reads which part of a capture `profd export` is to write: --step, --range, --device, --time. */
#ifndef PROFD_CLIENT_COMMAND_EXPORT_PART_H
#define PROFD_CLIENT_COMMAND_EXPORT_PART_H

#include "client/export/export.h"
#include "client/verbs/arguments.h"

#define EXPORT_PART_DEVICES 64

/* EXIT_DONE, or says what is wrong and returns its exit code. `devices` is what options->devices points to. */
int export_part(const struct arguments *arguments, struct export_options *options,
		uint32_t devices[EXPORT_PART_DEVICES]);

#endif
