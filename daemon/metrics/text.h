/* text.h - every metric, with its help and its labels, as Prometheus reads it. Loop's thread. */
#ifndef PROFD_DAEMON_METRICS_TEXT_H
#define PROFD_DAEMON_METRICS_TEXT_H

#include <stdbool.h>
#include <stdint.h>

struct exposition;
struct server;

/* Figures that may have to wait for a disk: a thread of its own reads them. */
struct metrics_slow {
	uint64_t at; /* CLOCK_MONOTONIC ns; 0 = not known */
	bool disk_known;
	uint64_t free_bytes, size_bytes; /* of the store's file system */
	uint64_t resident_bytes, descriptors, threads;
};

/* Writes all metrics. slow->at 0: the slow figures are left out. */
void metrics_write(const struct server *server, const struct metrics_slow *slow, struct exposition *to);

#endif
