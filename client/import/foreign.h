/* foreign.h - what a file is that is no trace of torch.profiler, as far as its first bytes or its name tell it. No state. */
#ifndef PROFD_CLIENT_IMPORT_FOREIGN_H
#define PROFD_CLIENT_IMPORT_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>

/* path: NULL or "-": it has none. Writes a sentence of what it is, and what to do; false: it may be JSON. */
bool foreign_tell(const char *path, const unsigned char *bytes, size_t n, char *sentence, size_t room);

#endif
