/* exposition.h - writes Prometheus' text format 0.0.4 into memory. Any thread; no state beside the caller's; no locks.
 *
 *     exposition_family(&e, "profd_steps", "gauge", "What it is.");
 *     exposition_count(&e, 3, "job_id", hostile_text, NULL);
 *
 * A family without a sample leaves no trace: what is not known is absent. */
#ifndef PROFD_DAEMON_METRICS_EXPOSITION_H
#define PROFD_DAEMON_METRICS_EXPOSITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct exposition {
	char *text; /* not terminated; owned */
	size_t n, room;
	bool failed; /* out of memory: the text is not whole */
	const char *name, *type, *help;
	bool announced; /* HELP and TYPE of the family are written */
};

struct histogram;

void exposition_init(struct exposition *exposition);
void exposition_deinit(struct exposition *exposition);

/* What the samples that follow belong to. The texts stay the caller's and are constants without backslash and newline. */
void exposition_family(struct exposition *exposition, const char *name, const char *type, const char *help);

/* Samples: pairs of label name and value, then NULL. A value may hold anything: what is not UTF-8 or a control character
 * becomes '?', the rest is escaped. Two samples of the same labels are the caller's mistake. */
void exposition_count(struct exposition *exposition, uint64_t value, ...) __attribute__((sentinel));
/* ns, written as seconds, exactly. */
void exposition_seconds(struct exposition *exposition, uint64_t ns, ...) __attribute__((sentinel));
/* Without labels. */
void exposition_histogram(struct exposition *exposition, const struct histogram *histogram);

#endif
