/* import.h - one trace of torch.profiler becomes one capture file. */
#ifndef PROFD_CLIENT_IMPORT_IMPORT_H
#define PROFD_CLIENT_IMPORT_IMPORT_H

#include "build.h"

#include <stdbool.h>

#define IMPORT_SENTENCE_BYTES 1024

/* Reads `path` ("-": standard input) and writes `output`, which appears whole or not at all. force: another file of that name is replaced. 0, or an exit code
 * with the sentence why. progress (NULL: nobody): percent of the file. */
int import_file(const char *path, const char *output, bool force, void (*progress)(const char *path, unsigned percent),
		struct build_counts *ret, char sentence[IMPORT_SENTENCE_BYTES]);

#endif
