/* workers.h - what the processes that load a job's batches did: for the sentence on an input that is late. */
#ifndef PROFD_STORE_FINDINGS_WORKERS_H
#define PROFD_STORE_FINDINGS_WORKERS_H

#include <sqlite3.h>

/* Parts of their time, 0 to 1. They slept the rest of it. */
struct workers {
	int count;	    /* 0: there were none, or what they did was not recorded */
	double ran, waited; /* waited: for a processor */
};

/* torch names its workers from 2.6 on. If no process has such a name, all processes that the job forked count as
 * workers. */
struct workers workers_load(sqlite3 *db);

#endif
