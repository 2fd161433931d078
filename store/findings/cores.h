/* cores.h - tensor cores: which a device has, what they would gain, and how they are used. For judge.c and tell.c. */
#ifndef PROFD_STORE_FINDINGS_CORES_H
#define PROFD_STORE_FINDINGS_CORES_H

#include <sqlite3.h>
#include <stdint.h>

/* The device's compute capability, major; 0: not known. */
int64_t cores_major(sqlite3 *db, int64_t device);
/* What tensor cores at their peak would win back of a kernel's time, as a part of it. */
double cores_win(int64_t major);
/* What to do, so that this kernel's product is done by them. */
const char *cores_advice(int64_t major, const char *kernel);

#endif
