/* foresee.h - what would make an attachment fail although the process is not refused; for `profd doctor`. */
#ifndef PROFD_CLIENT_ATTACH_FORESEE_H
#define PROFD_CLIENT_ATTACH_FORESEE_H

#include "target.h"

#include <stddef.h>

/* Half a sentence: what stands in the way now, or NULL. It only looks, at one moment: a thread may sleep elsewhere the next. */
const char *foresee(struct target *target);

#endif
