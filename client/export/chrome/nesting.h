/* nesting.h - which track a slice goes on. Viewers want the slices of one track to nest strictly; what one thread, or
 * one stream of a device, did mostly does, but for ranges that another thread closed, that were closed in another order
 * than they were opened, or that cross the boundary of a step, and for kernels that ran side by side. These are moved to
 * sibling tracks ("lanes") of their track.
 *
 * Steps come first, then what ends later and starts earlier. Memory: 20 bytes an event while it runs;
 * captures of more than NESTING_ROWS_IN_MEMORY events of the host, or of devices, are sorted by SQLite in a temporary file instead. */
#ifndef PROFD_CLIENT_EXPORT_CHROME_NESTING_H
#define PROFD_CLIENT_EXPORT_CHROME_NESTING_H

#include "client/reader/reader.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NESTING_ROWS_IN_MEMORY 2000000
/* Lanes of one track, its own place (0) included; what does not fit on any is asynchronous. */
#define NESTING_LANES 16
#define NESTING_ASYNC 255

/* Of slices that begin and end together, that of an earlier table holds that of a later one. */
enum nesting_table {
	NESTING_RANGES,
	NESTING_FUNCTIONS, /* no table of the file: a list, of the host */
	NESTING_OPERATORS,
	NESTING_TABLES_OF_1, /* what a capture file of schema 1 has of them */
	NESTING_API_CALLS = NESTING_TABLES_OF_1,
	NESTING_OVERHEADS,
	NESTING_PROJECTIONS, /* a list, too, of devices */
	NESTING_KERNELS,
	NESTING_COPIES,
	NESTING_SETS,
	NESTING_GRAPHS,
	NESTING_SYNCS,
	NESTING_TABLES
};

/* Tracks by number: a thread of the process; a stream of a device; the waits for a stream, or for all of them (stream
 * 0xffffffff), which overlap what the stream does meanwhile; and the profiler's own work. */
#define NESTING_WAITS (UINT64_C(1) << 62)
#define NESTING_OWN (UINT64_C(1) << 61)
static inline uint64_t nesting_device_track(uint32_t device, uint32_t stream)
{
	return (((uint64_t)device & 0x3fffffff) + 1) << 32 | stream;
}
static inline bool nesting_is_thread(uint64_t track)
{
	return track <= UINT32_MAX;
}
static inline uint32_t nesting_device(uint64_t track)
{
	return (uint32_t)((track >> 32 & 0x3fffffff) - 1);
}

/* A slice that stands in no table. */
struct nesting_slice {
	uint64_t track;
	int64_t start, end;
};

/* A row that is not on its track's own place. */
struct nesting_move {
	int64_t row;  /* rowid */
	uint8_t lane; /* 1.., or NESTING_ASYNC */
};

struct nesting_track {
	uint64_t track;
	uint8_t lanes; /* in use, 1.. */
};

struct nesting {
	struct nesting_move *moves[NESTING_TABLES]; /* by row */
	size_t move_count[NESTING_TABLES];
	struct nesting_track *tracks; /* all that something lies on, by number */
	size_t track_count;
	uint32_t *call_operators; /* of each API call: row of the innermost operator around it, 0 = none */
	int64_t call_first;	  /* row of the first */
	size_t call_count;
	int64_t earliest; /* start of the first slice, where before the base; else 0 or later */
};

/* Their rows are their places here. */
struct nesting_list {
	const struct nesting_slice *slices;
	size_t count;
};

struct nesting_options {
	int64_t schema; /* of the file */
	struct nesting_list functions, projections;
	size_t rows_in_memory; /* 0 = NESTING_ROWS_IN_MEMORY */
};

/* NULL: its rows stand in a table. */
static inline const struct nesting_list *nesting_list(const struct nesting_options *options, int table)
{
	return table == NESTING_FUNCTIONS     ? &options->functions
	       : table == NESTING_PROJECTIONS ? &options->projections
					      : NULL;
}

/* Reads all slices: ranges (but start/end ones, which need no track), operators, steps, API calls and what the device
 * did, where it has times, and those of the options. readers[0..threads) are of one file, and know profd_device() where
 * the schema is not 1. 0 or a negative errno. */
int nesting_find(struct nesting *n, struct reader *readers, unsigned threads, const struct nesting_options *options);
void nesting_deinit(struct nesting *n);

/* API calls whose operators are kept; with more than these, launches alone name their operators. */
#define NESTING_CALLS 3000000
/* Row of the innermost operator that an API call lies in; 0 = none, or not kept. */
static inline int64_t nesting_operator(const struct nesting *n, int64_t call)
{
	uint64_t at = (uint64_t)call - (uint64_t)n->call_first;
	return at < n->call_count ? n->call_operators[at] : 0;
}

/* Lane of a row; *at is the caller's place in the list (0 at first) and makes a scan in the order of rows cheap. */
static inline uint8_t nesting_lane(const struct nesting *n, enum nesting_table table, int64_t row, size_t *at)
{
	const struct nesting_move *moves = n->moves[table];
	size_t i = *at, count = n->move_count[table];
	if (count == 0)
		return 0;
	if (i > 0 && moves[i - 1].row >= row)
		i = 0;
	if (i == 0) { /* a scan that begins */
		size_t high = count;
		while (i < high) {
			size_t middle = i + (high - i) / 2;
			if (moves[middle].row < row)
				i = middle + 1;
			else
				high = middle;
		}
	}
	while (i < count && moves[i].row < row)
		i++;
	*at = i;
	return i < count && moves[i].row == row ? moves[i].lane : 0;
}

#endif
