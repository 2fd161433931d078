/* target.h - the file that a user names for an export: what it may be, and writing it. */
#ifndef PROFD_CLIENT_EXPORT_TARGET_H
#define PROFD_CLIENT_EXPORT_TARGET_H

#include "client/reader/capture.h"

#include <stdbool.h>

/* Can a file of this name be written? NULL, or a sentence (in a static buffer). */
const char *target_refusal(const char *name, const char *path, bool force);
/* Exports to `path` ("-" = standard output) in the format of this name, or in that of the suffix where it is NULL. Does
 * not overwrite unless `force`. EXIT_DONE, or prints a sentence and returns its exit code. */
int target_write(struct capture *capture, const char *name, const char *path, bool force);

#endif
