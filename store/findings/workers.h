/* workers.h - what the processes did that load a job's batches: for what is said of an input that is late. */
#ifndef PROFD_STORE_FINDINGS_WORKERS_H
#define PROFD_STORE_FINDINGS_WORKERS_H

#include <sqlite3.h>

/* Parts of their time, 0 to 1; the rest they slept. */
struct workers {
	int count;	    /* 0: there were none, or what they did was not recorded */
	double ran, waited; /* waited: for a processor */
};

/* torch names its workers from 2.6 on; where none has the name, all processes that the job forked are taken for workers. */
struct workers workers_load(sqlite3 *db);

#endif
