/* doubt.h - do a capture's records suffice to say why a device was idle? */
#ifndef PROFD_STORE_BREAKDOWN_DOUBT_H
#define PROFD_STORE_BREAKDOWN_DOUBT_H

#include "load_device.h"

/* If they do not, capture->doubt says why, and the causes of idle time are withdrawn. Errors: scan->error. */
void breakdown_doubt(struct scan *scan, struct breakdown_capture *capture, const struct device_evidence *evidence);

#endif
