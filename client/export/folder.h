/* folder.h - the folder that --output names: it is made here, and the files in it are named. */
#ifndef PROFD_CLIENT_EXPORT_FOLDER_H
#define PROFD_CLIENT_EXPORT_FOLDER_H

#include "client/reader/capture.h"

#include <stdbool.h>
#include <stddef.h>

/* Is it a folder, or will it be one? A name that is not there is taken for a folder if it ends in /. */
bool folder_named(const char *output);
/* Could it be made, and a file in it? 0 or a negative errno. Makes nothing. */
int folder_possible(const char *output);
/* Makes it where it is not there, and those above it. 0 or a negative errno. */
int folder_make(const char *output);
/* Says that it cannot be made, or written into. Returns the exit code. */
int folder_refuse(const char *output, int error);
/* The path of a capture's file in it (output NULL: in the current folder). Its name is that of the format `name` (NULL:
 * of the first one), which must be there. */
void folder_file(const char *output, struct capture *capture, const char *name, char *path, size_t bytes);
/* The same of a file that no format names: `pattern` has {name}, {pid}, {host}, {time} (ms) or {capture} in it. */
void folder_pattern(const char *output, struct capture *capture, const char *pattern, char *path, size_t bytes);

#endif
