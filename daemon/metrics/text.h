/* text.h - every metric, with its help and its labels, as Prometheus reads it. Loop's thread. */
#ifndef PROFD_DAEMON_METRICS_TEXT_H
#define PROFD_DAEMON_METRICS_TEXT_H

#include <stdbool.h>
#include <stdint.h>

struct exposition;
struct server;

/* What may have to wait for a disk: found out on a thread of its own. */
struct metrics_slow {
	uint64_t at; /* CLOCK_MONOTONIC ns; 0 = not known */
	bool disk_known;
	uint64_t free_bytes, size_bytes; /* of the store's file system */
	uint64_t resident_bytes, descriptors, threads;
};

/* Writes all of it. slow->at 0: what it would tell is left out. */
void metrics_write(const struct server *server, const struct metrics_slow *slow, struct exposition *to);

#endif
