/* target.h - the file that a user names for an export: what it may be, and writing it. */
#ifndef PROFD_CLIENT_EXPORT_TARGET_H
#define PROFD_CLIENT_EXPORT_TARGET_H

#include "client/reader/capture.h"
#include "export.h"

#include <stdbool.h>

/* Can a file of this name be written, of `count` captures? NULL, or a sentence (in a static buffer). options NULL: all of a capture. */
const char *target_refusal(const char *name, const char *path, bool force, size_t count,
			   const struct export_options *options);
/* Exports to `path` ("-" = standard output) in the format of this name, or in that of the suffix where it is NULL. Does
 * not overwrite unless `force`. EXIT_DONE, or prints a sentence and returns its exit code. */
int target_write(struct capture *captures, size_t count, const char *name, const char *path, bool force,
		 const struct export_options *options);
/* How large that file will be: a sentence on standard output. EXIT_DONE, or as above. */
int target_estimate(struct capture *captures, size_t count, const char *name, const char *path,
		    const struct export_options *options);

#endif
