/* bounds.c - see bounds.h. Each thread counts what it spends; atomics, no locks. */
#include "bounds.h"

#include <sqlite3.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

/* Steps of SQLite's virtual machine between two looks, and how many are allowed. Telling operators apart by their
 * shapes needs most: 2.3 steps a byte of the file. */
#define LOOK 2000
#define STEPS_BASE 20000000
#define STEPS_BYTE 100
/* A bound of processor time, because one step can take long: a broken file can have a long text in every row. An export
 * takes 0.06 s a MiB. */
#define SECONDS_BASE 10
#define SECOND_BYTES (1 << 20)
/* The smallest row: its head, its number, a byte a column, its place in the page. */
#define ROW_BYTES 8
/* How often a row of the file may be read: each table of a report makes queries of its own. */
#define ROW_ANSWERS 4
/* Temporary files: sorts that were seen took a fifth of the file. */
#define TEMPORARY_BASE (16 << 20)
#define TEMPORARY_BYTE 4
/* Memory that SQLite may have in the whole process, and the longest text or row: the longest that profd writes is a
 * summary, which fits into a packet. */
#define HEAP_BYTES (512 << 20)
#define LENGTH_BYTES (1 << 20)

struct bounds {
	int64_t bytes;
	_Atomic int64_t steps; /* that are left */
	_Atomic int64_t rows;  /* the same */
	int64_t until;	       /* of the process's processor time, ns */
	atomic_bool exceeded;
};

static int64_t processor_time(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

struct bounds *bounds_new(int64_t bytes)
{
	struct bounds *bounds = calloc(1, sizeof *bounds);

	if (!bounds)
		return NULL;
	bounds->bytes = bytes;
	bounds->steps = STEPS_BASE + bytes * STEPS_BYTE;
	bounds->rows = ROW_ANSWERS * bounds_rows(bounds);
	bounds->until = processor_time() + (SECONDS_BASE + bytes / SECOND_BYTES) * 1000000000;
	return bounds;
}

void bounds_free(struct bounds *bounds)
{
	free(bounds);
}

static int look(void *user)
{
	struct bounds *bounds = user;

	if (atomic_fetch_sub(&bounds->steps, LOOK) > LOOK && processor_time() < bounds->until)
		return 0;
	bounds_exceed(bounds);
	return 1;
}

void bounds_watch(struct bounds *bounds, sqlite3 *db)
{
	sqlite3_hard_heap_limit64(HEAP_BYTES);
	sqlite3_limit(db, SQLITE_LIMIT_LENGTH, LENGTH_BYTES);
	sqlite3_progress_handler(db, LOOK, look, bounds);
}

bool bounds_exceeded(const struct bounds *bounds)
{
	return atomic_load(&bounds->exceeded);
}

int64_t bounds_rows(const struct bounds *bounds)
{
	return bounds->bytes / ROW_BYTES;
}

bool bounds_row(struct bounds *bounds)
{
	if (atomic_fetch_sub(&bounds->rows, 1) > 0)
		return true;
	bounds_exceed(bounds);
	return false;
}

int64_t bounds_temporary(const struct bounds *bounds)
{
	return TEMPORARY_BASE + bounds->bytes * TEMPORARY_BYTE;
}

void bounds_exceed(struct bounds *bounds)
{
	atomic_store(&bounds->exceeded, true);
}
