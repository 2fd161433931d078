/* in_flight.h - what a finding's intervals are that lie outside of operators: waits for other ranks, perhaps. */
#ifndef PROFD_STORE_FINDINGS_IN_FLIGHT_H
#define PROFD_STORE_FINDINGS_IN_FLIGHT_H

#include "findings.h"

#include <sqlite3.h>

/* Of findings about a step's thread that is outside of operators, where no device works: adds to the evidence for how much of it collective operations
 * were in flight in their library's threads, and to the advice who tells more. */
void findings_in_flight(sqlite3 *db, struct findings *findings);

#endif
