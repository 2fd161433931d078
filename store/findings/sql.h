/* sql.h - the SQL that lists the records behind a finding: for tell.c. */
#ifndef PROFD_STORE_FINDINGS_SQL_H
#define PROFD_STORE_FINDINGS_SQL_H

#include "texts.h"

/* Fills sql. */
void findings_tell_sql(const struct texts *texts, const struct findings *findings, struct finding *finding);

#endif
