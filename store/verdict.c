/* verdict.c - see verdict.h. No locks. */
#include "verdict.h"

#include "store/findings/json.h"
#include "findings_stored.h"
#include "notes.h"
#include "proto/base/array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The breakdown needs at most so much memory for each row that it reads. Measured: 102 bytes for operators, 190 for
 * operations of a device. */
#define BYTES_A_ROW 256
/* The watch is asked after so many rows. */
#define LOOK_EVERY 1024

struct verdict {
	struct store *store;
	uint64_t rows;
};

static bool may_go_on(void *context)
{
	struct verdict *verdict = context;
	return ++verdict->rows % LOOK_EVERY || !store_over(verdict->store);
}

/* About how many rows will be read: the highest numbers of the tables. Deleted rows count too, but are few. */
static uint64_t count_rows(struct store *store)
{
	uint64_t rows = 0;
	sqlite3_stmt *statement = store_prepare(
		store,
		"SELECT coalesce((SELECT max(rowid) FROM operators), 0) + coalesce((SELECT max(rowid) FROM ranges), 0) + "
		"coalesce((SELECT max(rowid) FROM api_calls), 0) + coalesce((SELECT max(rowid) FROM kernel_records), 0) + "
		"coalesce((SELECT max(rowid) FROM copy_records), 0) + coalesce((SELECT max(rowid) FROM set_records), 0) + "
		"coalesce((SELECT max(rowid) FROM garbage_collections), 0) + "
		"coalesce((SELECT max(rowid) FROM graph_records), 0) + coalesce((SELECT max(id) FROM strings), 0) + 1024");
	if (statement && sqlite3_step(statement) == SQLITE_ROW)
		rows = (uint64_t)sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	return rows;
}

/* An error here does not spoil the capture: only the verdict is missing. */
static void give_up(struct store *store, struct findings *findings, const char *why)
{
	memset(findings, 0, sizeof *findings);
	findings->device = -1;
	snprintf(findings->abstains, sizeof findings->abstains, "The verdict was not made with the capture: %.300s.",
		 why);
	snprintf(findings->verdict, sizeof findings->verdict, "%s", findings->abstains);
	store->error = 0;
	*store->sentence = 0;
}

/* The bytes are counted for whoever pays, but not allocated there: SQLite and the breakdown allocate by themselves. */
static bool count_memory(struct store *store, uint64_t bytes)
{
	struct memory *memory = store->memory;
	if (!memory)
		return true;
	uint64_t used = atomic_fetch_add_explicit(&memory->used, bytes, memory_order_relaxed) + bytes;
	if (used <= atomic_load_explicit(&memory->most, memory_order_relaxed))
		return true;
	atomic_fetch_sub_explicit(&memory->used, bytes, memory_order_relaxed);
	return false;
}

static void discount_memory(struct store *store, uint64_t bytes)
{
	if (store->memory)
		atomic_fetch_sub_explicit(&store->memory->used, bytes, memory_order_relaxed);
}

/* It only reads: if it is interrupted, nothing has to be undone. */
static bool compute(struct store *store, const struct store_watch *watch, struct breakdown_capture *capture,
		    struct findings *findings, struct row_lines *lines)
{
	struct verdict verdict = {.store = store};
	const struct breakdown_watch rows = {.row = may_go_on, .context = &verdict, .own = true};
	int error = 0;
	store_watch_begin(store, watch);
	store_doing(store, "finding where the time goes");
	bool ok = breakdown_capture_load(store->db, &rows, capture, &error) &&
		  findings_make(capture, store->db, &rows, findings, &error) &&
		  row_lines_find(capture, store->db, &rows, 0, capture->breakdown.step_count, lines, &error);
	store_watch_end(store);
	if (!ok && !store->error)
		snprintf(store->sentence, sizeof store->sentence, "%s",
			 error == SQLITE_NOMEM ? "there was no memory" : sqlite3_errmsg(store->db));
	return ok && !store->error;
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return ORDER(x, y);
}

/* Computes the usual step time without steps that hold an evaluation or a compilation, and notes that they are left
 * out. */
static void leave_out(struct store *store, struct derived *derived, const struct breakdown *breakdown)
{
	size_t steps = breakdown->step_count, count = 0;
	unsigned unusual = breakdown_left_out(breakdown, 0, steps);
	int64_t *walls = unusual ? malloc(steps * sizeof *walls) : NULL;
	if (!walls)
		return;
	for (size_t i = 0; i < steps; i++)
		if (!(breakdown_holds(&breakdown->steps[i]) & unusual))
			walls[count++] = breakdown->steps[i].end - breakdown->steps[i].start;
	qsort(walls, count, sizeof *walls, by_value);
	derived->step_ns = (uint64_t)(walls[(count - 1) / 2] + walls[count / 2]) / 2;
	free(walls);
	store_meta_int(store, "step_median", (int64_t)derived->step_ns);
	char sentence[BREAKDOWN_SENTENCE];
	breakdown_tell_left_out(breakdown, 0, steps, sentence);
	notes_add(store, sentence);
}

static void make(struct store *store, const struct store_watch *watch, struct derived *derived,
		 struct breakdown_capture *capture, struct findings *findings)
{
	uint64_t bytes = count_rows(store) * BYTES_A_ROW;
	struct row_lines lines = {0};
	if (!count_memory(store, bytes)) {
		give_up(store, findings, "the memory that its user may take (memory_user) did not suffice");
		return;
	}
	if (compute(store, watch, capture, findings, &lines)) {
		findings_write(store, capture, findings, &lines);
		leave_out(store, derived, &capture->breakdown);
	} else {
		char why[STORE_SENTENCE_BYTES];
		text_copy(why, sizeof why, store->sentence);
		give_up(store, findings, why);
	}
	row_lines_free(&lines);
	breakdown_capture_free(capture);
	discount_memory(store, bytes);
}

cJSON *verdict_run(struct store *store, const struct store_watch *watch, struct derived *derived, bool cramped,
		   char line[STORE_SENTENCE_BYTES])
{
	struct breakdown_capture *capture = calloc(1, sizeof *capture);
	struct findings *findings = calloc(1, sizeof *findings);
	cJSON *json = NULL;
	if (capture && findings && !store->error) {
		if (derived->unordered || *derived->trouble)
			give_up(store, findings, "its records were not put into order");
		else if (cramped)
			give_up(store, findings, "no space was left on the disk of the store");
		else
			make(store, watch, derived, capture, findings);
		text_copy(line, STORE_SENTENCE_BYTES, findings->verdict);
		json = findings_json(findings, NULL);
	}
	free(capture);
	free(findings);
	return json;
}
