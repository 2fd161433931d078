/* in_flight.h - tells whether intervals outside of operators may be waits for other ranks. */
#ifndef PROFD_STORE_FINDINGS_IN_FLIGHT_H
#define PROFD_STORE_FINDINGS_IN_FLIGHT_H

#include "findings.h"

#include <sqlite3.h>

/* Takes findings that say that the step's thread is outside of operators while no device works. Adds to the evidence
 * for how much of that time collective operations were in flight in their library's threads, and to the advice which
 * command tells more. */
void findings_in_flight(sqlite3 *db, struct findings *findings);

#endif
