/* open.h - opens catalogue.db, makes it, or brings it to this release's schema. Before the catalogue's thread
 * exists. */
#ifndef PROFD_DAEMON_CATALOGUE_OPEN_H
#define PROFD_DAEMON_CATALOGUE_OPEN_H

#include <stddef.h>

struct catalogue;

/* Opens or makes it. A damaged file is moved to <directory>/lost, and a new one is made. 0, or a negative errno with a
 * sentence. */
int catalogue_open(struct catalogue *catalogue, const char *directory, int folder, const char *folder_path,
		   char *sentence, size_t sentence_bytes);

#endif
