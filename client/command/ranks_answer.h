/* ranks_answer.h - which rank the others wait for, as sentences: of `profd ranks`, and of a trigger that recorded several. */
#ifndef PROFD_CLIENT_COMMAND_RANKS_ANSWER_H
#define PROFD_CLIENT_COMMAND_RANKS_ANSWER_H

#include "client/compare/ranks.h"

/* What times are of: "step", or "window". */
const char *ranks_unit(const struct ranks *ranks);
/* One or two sentences; to be freed. */
char *ranks_answer(const struct ranks *ranks);

#endif
