/* gpu_head.h - the devices in a trace's metadata, and their tracks. */
#ifndef PROFD_CLIENT_EXPORT_CHROME_GPU_HEAD_H
#define PROFD_CLIENT_EXPORT_CHROME_GPU_HEAD_H

#include "chrome.h"

/* In the metadata: the devices, versions; the devices' and streams' names and places. */
void gpu_put_properties(const struct chrome *c, struct buffer *b);
void gpu_put_versions(const struct chrome *c, struct buffer *b);
void gpu_put_tracks(const struct chrome *c, struct buffer *b);

#endif
