/* shapes.h - the operator that launches a kernel, and the types and shapes of its inputs: for tell.c. */
#ifndef PROFD_STORE_FINDINGS_SHAPES_H
#define PROFD_STORE_FINDINGS_SHAPES_H

#include "findings.h"

/* ", most often by aten::mm of float [64, 128] and float [128, 10]": the kernel has this id in `strings`. Without
 * inputs if these were not recorded; empty if no operator is known. */
void shapes_of_kernel(sqlite3 *db, uint32_t kernel, const struct findings *findings, char *ret, size_t bytes);

#endif
