/* answer_breakdown.h - the breakdown as the answer shows it: with bars, and without the rows that are next to nothing. */
#ifndef PROFD_CLIENT_COMMAND_ANSWER_BREAKDOWN_H
#define PROFD_CLIENT_COMMAND_ANSWER_BREAKDOWN_H

#include "tables.h"

/* several: of more than one step, whose mean it is. */
void answer_breakdown(struct tables *tables, bool several);
/* What stands out in it, or that nothing does. `name`: what the user calls the capture. */
void answer_verdict(const struct tables *tables, const char *name);

#endif
