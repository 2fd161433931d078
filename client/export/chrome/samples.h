/* samples.h - samples of stacks of Python, as Chrome's own profiler writes those of JavaScript: an event Profile a thread, then ProfileChunks
 * with the frames that are new, the samples and the times between them. Perfetto reads them.
 *
 * A frame is told apart by its line, and written once a thread, before the first sample in it. The innermost frame of a thread in which no
 * Python ran is "(no Python)". What the agent could not read is no sample at all. Memory: what the table of frames takes, and a chunk. */
#ifndef PROFD_CLIENT_EXPORT_CHROME_SAMPLES_H
#define PROFD_CLIENT_EXPORT_CHROME_SAMPLES_H

#include "chrome.h"
#include "client/export/stream.h"

#include <stdint.h>

/* Of all threads together: a file of a stranger may have a deep stack in each of a million threads. */
#define SAMPLES_FRAMES_MAX 500000

/* Writes those that lie in the part that is written, in the caller's thread. Adds how many there was no room for, as too many frames were written
 * before. 0 or a negative errno; nothing where the capture has none. */
int samples_put(const struct chrome *c, struct block *block, uint64_t *left_out);

#endif
