/* nesting_memory.h - the slices of some tables, read by several threads into one array, and swept. */
#ifndef PROFD_CLIENT_EXPORT_CHROME_NESTING_MEMORY_H
#define PROFD_CLIENT_EXPORT_CHROME_NESTING_MEMORY_H

#include "nesting_tables.h"
#include "sweep.h"

/* What is to be read: `rows` of each table, those of NESTING_PROJECTIONS being the options' slices. readers[0..threads) are of one file. 0 or
 * a negative errno. */
int nesting_sweep_memory(struct sweep *s, struct reader *readers, unsigned threads,
			 const struct nesting_rows rows[NESTING_TABLES], const struct nesting_options *options);

#endif
