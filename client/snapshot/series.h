/* series.h - the captures of one job over time: which of them belong together, medians, changes, sparklines, and which
 * are too many. Pure but for series_query. One thread. */
#ifndef PROFD_CLIENT_SNAPSHOT_SERIES_H
#define PROFD_CLIENT_SNAPSHOT_SERIES_H

#include "client/link/connection.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whose a row is (of a process or a capture). The texts are the row's. */
struct who {
	int64_t uid;
	const char *job, *name; /* "" = none */
	int64_t rank;		/* -1 = none */
	int64_t pid;		/* 0 = any: told apart by the rest alone */
};

/* `by_pid`: keeps the pid. */
struct who who_of(const cJSON *row, bool by_pid);
/* The same user, job, name and rank; and pid, where `wanted` has one. */
bool who_same(const struct who *wanted, const struct who *one);

/* Captures with this label ("" = with any), of this job where it is not NULL, whose recording has ended and that hold
 * steps: oldest first, each once. To be deleted, NULL with *failure filled where no daemon answered. */
cJSON *series_query(struct daemons *daemons, const char *label, const char *job, struct failure *failure);

/* Do captures of one user, job, name and rank come from several processes that lived at a time? Then only the pid tells
 * them apart. `captures` are oldest first. */
bool series_needs_pid(const cJSON *captures, const struct who *who);

/* Ids (to be deleted) of the captures of this one beyond the newest `keep`. Pinned captures are not among them and do
 * not count. `captures` are oldest first. */
cJSON *series_surplus(const cJSON *captures, const struct who *who, int64_t keep);

/* ns a step without a recording: before its warm-up; where that is not known, while it was recorded. 0 = not known. */
int64_t series_idle_step(const cJSON *capture, const cJSON *summary);

/* Sorts the values; between two of them their mean. 0 of none. */
double series_median(double *values, size_t count);

/* Of a process that is judged, this many of its last steps count: those before may be of another time. */
#define SERIES_NOW 8
/* And at most this many earlier values. */
#define SERIES_EARLIER 20
/* Do the last steps (an array of ns, the newest last) take longer than `earlier` ones, beyond the spread of both? True also where
 * too few are known to tell. */
bool series_is_beyond(const cJSON *steps, const double *earlier, size_t count);

/* "1.2x" or "1.2": at least 1. False where it is none. */
bool series_parse_factor(const char *text, double *ret);

/* The values as one line (to be freed); a negative value is a gap. The line goes from the smallest to the largest
 * value, but small differences (less than a tenth of the largest value) are not blown up. */
char *series_sparkline(const double *values, size_t count, bool unicode);
/* Do the locale's variables say UTF-8? */
bool series_unicode(void);

#endif
