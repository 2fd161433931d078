/* finish.h - the end of a capture whose rows are all in its file: what store_finish() of store.h does. No locks. */
#ifndef PROFD_STORE_FINISH_H
#define PROFD_STORE_FINISH_H

#include "file.h"

int finish_run(struct store *store, struct store_ending *ending, struct capture_facts *facts,
	       const struct store_watch *watch, struct store_finished *ret);

#endif
