/* shapes.h - which operator launches a kernel, and of which types and shapes its inputs are: for tell.c. */
#ifndef PROFD_STORE_FINDINGS_SHAPES_H
#define PROFD_STORE_FINDINGS_SHAPES_H

#include "findings.h"

/* ", most often by aten::mm of float [64, 128] and float [128, 10]", of the kernel with this id in `strings`; without inputs where these were not
 * recorded, empty where no operator is known. */
void shapes_of_kernel(sqlite3 *db, uint32_t kernel, const struct findings *findings, char *ret, size_t bytes);

#endif
