/* log.h - the daemon's log: one line per fact to stderr (the journal adds the time). Any thread; no locks: a line is one
 * write. */
#ifndef PROFD_PROTO_BASE_LOG_H
#define PROFD_PROTO_BASE_LOG_H

/* Lines of log_verbose appear only with --verbose, or where profd.conf says so. */
extern _Atomic int log_is_verbose;

void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same, for what an administrator looks for: in the journal its priority is "notice". On a terminal, where a person has
 * started the daemon by hand, such lines appear only with --verbose. */
void log_notice(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_verbose(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
