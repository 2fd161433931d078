/* distributed.h - which of how many processes a trace is of: distributedInfo, as torch.profiler writes it. */
#ifndef PROFD_CLIENT_EXPORT_CHROME_DISTRIBUTED_H
#define PROFD_CLIENT_EXPORT_CHROME_DISTRIBUTED_H

#include "chrome.h"

/* `"distributedInfo": {...},` and a new line; nothing where no rank is known. */
void distributed_put(const struct chrome *c, struct buffer *b);

#endif
