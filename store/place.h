/* place.h - the step to which an event belongs, where its time decides (the column `place` of proto/events.def). */
#ifndef PROFD_STORE_PLACE_H
#define PROFD_STORE_PLACE_H

#include "derive_boundaries.h"
#include "file.h"
#include "totals.h"

/* Moves rows whose writers stated the step and whose times say otherwise. A table is not read if `totals` prove that
 * it has no such row. *moved: how many rows were moved. Returns 0 or store->error. */
int place_stated(struct store *store, struct totals *totals, const struct boundaries *boundaries, uint64_t *moved);

/* Places all other kinds by time: a row without a step gets the step in which it begins. A row that begins outside of
 * every step is deleted, or stays, as its kind says. Returns how many rows were deleted. */
uint64_t place_by_time(struct store *store);

#endif
