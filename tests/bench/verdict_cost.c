/* verdict_cost.c - what the breakdown and the verdict of a capture file cost when the capture ends: made and written anew in one
 * transaction, which is taken back. Prints the seconds of the processor, the process's and the system's together.
 *
 *     verdict_cost FILE */
#include "store/findings_stored.h"
#include "store/file.h"

#include <malloc.h>
#include <stdio.h>
#include <time.h>

static double seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static bool may_go_on(void *context)
{
	return ++*(uint64_t *)context != 0;
}

/* As verdict_run() does it. */
static int make(struct store *store)
{
	static struct breakdown_capture capture;
	static struct findings findings;
	static struct row_lines lines;
	uint64_t looks = 0;
	const struct breakdown_watch watch = {.row = may_go_on, .context = &looks, .own = true};
	int error = 0;
	double begin = seconds();
	if (!breakdown_capture_load(store->db, &watch, &capture, &error) ||
	    !findings_make(&capture, store->db, &watch, &findings, &error) ||
	    !row_lines_find(&capture, store->db, &watch, 0, capture.breakdown.step_count, &lines, &error))
		return error;
	findings_write(store, &capture, &findings, &lines);
	row_lines_free(&lines);
	breakdown_capture_free(&capture);
	printf("%.4f\n", seconds() - begin);
	return store->error;
}

int main(int argc, char **argv)
{
	struct store store = {0};
	/* As the daemon has it. */
	mallopt(M_MMAP_THRESHOLD, 1 << 20);
	int error = argc == 2 ? sqlite3_open_v2(argv[1], &store.db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL)
			      : SQLITE_ERROR;
	if (!error)
		error = sqlite3_exec(
			store.db,
			"PRAGMA foreign_keys = OFF; BEGIN; DELETE FROM breakdown; DELETE FROM breakdown_lines; DELETE FROM findings; DELETE FROM finding_intervals",
			NULL, NULL, NULL);
	if (!error) {
		store.meta = store_prepare(&store, "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)");
		error = make(&store);
		sqlite3_finalize(store.meta);
	}
	if (error)
		fprintf(stderr, "verdict_cost: %s\n",
			store.error ? store.sentence
			: store.db  ? sqlite3_errmsg(store.db)
				    : "verdict_cost FILE");
	sqlite3_close(store.db);
	return error != 0;
}
