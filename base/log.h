/* log.h - one line per fact to stderr (the journal adds the time), and the clocks that the lines and rows carry. Any
 * thread; no locks: a line is one write. */
#ifndef PROFD_DAEMON_LOG_H
#define PROFD_DAEMON_LOG_H

#include <stdint.h>

/* Lines of log_verbose appear only with --verbose, or where profd.conf says so. */
extern _Atomic int log_is_verbose;

void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same, for what an administrator looks for: in the journal its priority is "notice". On a terminal, where a person has
 * started the daemon by hand, such lines appear only with --verbose. */
void log_notice(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_verbose(const char *format, ...) __attribute__((format(printf, 1, 2)));

uint64_t clock_monotonic(void); /* ns */
uint64_t clock_thread(void);	/* ns that the calling thread has had a processor */
uint64_t clock_realtime(void);	/* ns */

/* RFC 3339, UTC, microseconds: 27 characters and a NUL. */
#define TIME_TEXT_BYTES 40
void time_text(uint64_t realtime_ns, char ret[TIME_TEXT_BYTES]);

#endif
