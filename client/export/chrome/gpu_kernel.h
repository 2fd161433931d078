/* gpu_kernel.h - the events of what a device did: kernels, copies, memsets, whole graphs. */
#ifndef PROFD_CLIENT_EXPORT_CHROME_GPU_KERNEL_H
#define PROFD_CLIENT_EXPORT_CHROME_GPU_KERNEL_H

#include "gpu.h"

void gpu_put_kernel(const struct gpu_row *r);
void gpu_put_copy(const struct gpu_row *r);
void gpu_put_set(const struct gpu_row *r);
void gpu_put_graph(const struct gpu_row *r);
/* Their queries, as in gpu.h. */
extern const char gpu_kernel_query[], gpu_copy_query[], gpu_set_query[], gpu_graph_query[];

#endif
