/* memory_viz.h - how large a memory snapshot becomes. */
#ifndef PROFD_CLIENT_EXPORT_MEMORY_VIZ_MEMORY_VIZ_H
#define PROFD_CLIENT_EXPORT_MEMORY_VIZ_MEMORY_VIZ_H

/* Records that are written at most, the latest: a browser draws no more of them in a time that anybody waits. */
#define MEMORY_VIZ_RECORDS 500000
/* Bytes of the file for each, as was measured. */
#define MEMORY_VIZ_RECORD_BYTES 75

#endif
