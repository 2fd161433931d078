/* cores.h - tensor cores: which ones a device has, what they would gain, and how to use them. For judge.c and
 * tell.c. */
#ifndef PROFD_STORE_FINDINGS_CORES_H
#define PROFD_STORE_FINDINGS_CORES_H

#include <sqlite3.h>
#include <stdint.h>

/* The device's compute capability, major; 0: not known. */
int64_t cores_major(sqlite3 *db, int64_t device);
/* The part of a kernel's time that tensor cores at their peak would win back. */
double cores_win(int64_t major);
/* What to do so that tensor cores compute this kernel's product. */
const char *cores_advice(int64_t major, const char *kernel);

#endif
