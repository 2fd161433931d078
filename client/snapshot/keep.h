/* keep.h - `profd snapshot --keep`: the older snapshots of a unit are deleted. One thread. */
#ifndef PROFD_CLIENT_SNAPSHOT_KEEP_H
#define PROFD_CLIENT_SNAPSHOT_KEEP_H

#include "snapshot.h"

/* Of each member's snapshots with the label keeps the newest `keep`, and has its daemon delete the others. Their ids are
 * added to unit->deleted. What does not work is said as a note. */
void keep_newest(const struct daemon *daemon, struct unit *unit, const char *label, int64_t keep);

#endif
