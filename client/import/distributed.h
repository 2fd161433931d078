/* distributed.h - which of how many processes wrote a trace, as torch says it beside the events. */
#ifndef PROFD_CLIENT_IMPORT_DISTRIBUTED_H
#define PROFD_CLIENT_IMPORT_DISTRIBUTED_H

#include "kineto.h"

/* Takes rank and world size from about->distributed. What is no JSON object, or is larger than any group's, is forgotten. */
void distributed_read(struct kineto_about *about);

#endif
