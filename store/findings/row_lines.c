/* row_lines.c - see row_lines.h. Operators are read backwards. They were written when they ended, so an operator
 * comes before the ones inside of it, and nothing has to be sorted. Samples are read once. No locks. */
#include "row_lines.h"
#include "shares.h"

#include "proto/base/array.h"
#include "proto/base/numbered.h"
#include "proto/events.h"
#include "proto/limits.h"
#include "store/breakdown/scan.h"

#include <stdlib.h>

/* With fewer samples, a row's line is chance. */
#define SAMPLES_LEAST 10
/* So many operators around one another are kept. A deeper one counts for the innermost of these. */
#define DEPTH_MOST 128
/* No process has more threads that run operators: such a file is hostile. */
#define THREADS_MOST 4096
/* Pieces of rows that are looked at, each for one operator. Those of a device that is often idle count for each
 * thread that runs operators. A capture with more pieces tells no lines. */
#define PIECES_MOST (64 << 20)

enum way { RAN, SAMPLED, WAYS };

/* What is known of a row. */
struct of_row {
	int64_t total, ns[WAYS]; /* time that has a line; for samples the time of all samples */
	uint64_t samples;
	struct {
		struct row_line line;
		int64_t ns;
	} most[WAYS];
};

/* One line in a row, found in one way. */
struct of_line {
	int64_t function, ns;
};

struct open_operator {
	int64_t start;
	uint32_t stack;
};

/* How far the operators of a thread have been followed, from the last to the first: down to `now`. */
struct thread_at {
	int64_t thread, now, end; /* end: of the operator that was taken last */
	bool begun;
	size_t depth;
	struct open_operator open[DEPTH_MOST];
};

struct rows {
	struct scan scan;
	const struct breakdown_capture *capture;
	size_t first, last;
	struct of_row *of; /* the host's rows, then each device's causes */
	struct numbered lines, threads;
	struct share *stacks; /* by number: the stack's line */
	size_t stack_count;
	bool unsorted; /* the operators are not in the order of their ends */
	uint64_t pieces;
};

static bool too_many(struct rows *rows)
{
	return ++rows->pieces > PIECES_MOST;
}

static size_t idle_at(size_t device, size_t cause)
{
	return HOST_ROWS + device * IDLE_ROWS + cause;
}

/* Was the device idle for a cause that lies with the host? */
static bool is_of_host(const struct breakdown_stretch *stretch)
{
	if (stretch->row != DEVICE_IDLE)
		return false;
	switch ((enum idle_row)stretch->cause) {
	case IDLE_INPUT:
	case IDLE_SYNC:
	case IDLE_COPY:
	case IDLE_ALLOC:
	case IDLE_COMPILE:
	case IDLE_GARBAGE:
	case IDLE_SETUP:
	case IDLE_COMM:
	case IDLE_OPERATOR:
	case IDLE_LAUNCH:
	case IDLE_CALL:
	case IDLE_OUTSIDE:
		return true;
	case IDLE_ARRIVAL:
	case IDLE_CAPTURE:
	case IDLE_GAP:
	case IDLE_DEVICE_WAIT:
	case IDLE_UNKNOWN:
	case IDLE_ROWS:
		break;
	}
	return false;
}

static void add(struct rows *rows, size_t row, enum way way, const struct share *line, int64_t ns)
{
	struct of_row *of = &rows->of[row];
	/* A hostile file's times that no capture can have are left out. */
	if (ns <= 0 || ns > INT64_MAX / 4 - of->ns[way] || row == HOST_CAPTURE)
		return;
	of->samples += way == SAMPLED;
	if (way == SAMPLED || line->file)
		of->ns[way] += ns;
	if (!line->file)
		return;
	struct of_line *sum = numbered_add(&rows->lines, (int64_t)(row * WAYS + way), line->file, line->line);
	if (!sum) {
		scan_no_memory(&rows->scan);
		return;
	}
	sum->function = sum->ns ? sum->function : line->function;
	sum->ns += ns;
	if (sum->ns <= of->most[way].ns)
		return;
	of->most[way].ns = sum->ns;
	of->most[way].line = (struct row_line){.file = line->file, .line = line->line, .function = sum->function};
}

static size_t stretch_at(const struct breakdown_device *device, int64_t time)
{
	return ARRAY_BEFORE(device->stretch_count, at, breakdown_stretch_end(&device->stretches[at]) <= time);
}

/* The thread that left the device idle at an instant of the stretch. It is the thread that launched the operation
 * after the stretch; if that thread did nothing at the time, it is the thread that steps. *ret_end: until then it is
 * the same one. */
static uint32_t late_at(const struct rows *rows, const struct breakdown_device *device,
			const struct breakdown_stretch *stretch, int64_t time, int64_t *ret_end)
{
	const struct breakdown_capture *capture = rows->capture;
	const uint32_t launcher = breakdown_launcher(&capture->breakdown, &device->idles[stretch->idle]);
	const struct activity_thread *thread = activity_find(&capture->activity, launcher);
	const size_t at = thread ? activity_at(thread, time) : 0;
	struct activity_segment segment = {.phase = PHASE_NONE, .doing = DOING_OUTSIDE};
	*ret_end = breakdown_stretch_end(stretch);
	if (launcher == capture->breakdown.step_thread)
		return launcher;
	if (thread && at < thread->count) {
		const bool begun = activity_start(thread, at) <= time;
		const int64_t end = begun ? activity_end(thread, at) : activity_start(thread, at);
		segment = begun ? activity_segment(thread, at) : segment;
		*ret_end = end < *ret_end ? end : *ret_end;
	}
	/* A thread that runs a backward is in the phase of the thread that steps. */
	const bool waits = segment.phase == PHASE_INPUT && !breakdown_follows(capture, launcher);
	return segment.doing == DOING_OUTSIDE && !waits ? capture->breakdown.step_thread : launcher;
}

/* --- operators --- */

/* The thread was on this line from `from` to `to`: the line gets the parts of a step's rows in that time. */
static void add_to_host(struct rows *rows, int64_t from, int64_t to, const struct share *line)
{
	for (int64_t end; from < to && !too_many(rows); from = end) {
		enum host_row row = breakdown_host_row(&rows->capture->breakdown, from, &end);
		end = end < to ? end : to;
		if (row != HOST_ROWS)
			add(rows, row, RAN, line, end - from);
	}
}

static void add_to_device(struct rows *rows, size_t d, int64_t thread, int64_t from, int64_t to,
			  const struct share *line)
{
	const struct breakdown_device *device = &rows->capture->breakdown.devices[d];
	for (size_t i = stretch_at(device, from); i < device->stretch_count && device->stretches[i].start < to; i++) {
		const struct breakdown_stretch *stretch = &device->stretches[i];
		if (too_many(rows))
			return;
		if (!is_of_host(stretch))
			continue;
		int64_t end, now = stretch->start > from ? stretch->start : from,
			     last = breakdown_stretch_end(stretch) < to ? breakdown_stretch_end(stretch) : to;
		for (; now < last && !too_many(rows); now = end) {
			uint32_t late = late_at(rows, device, stretch, now, &end);
			end = end < last ? end : last;
			if (late == thread)
				add(rows, idle_at(d, stretch->cause), RAN, line, end - now);
		}
	}
}

/* From `from` up to the time down to which it was followed, the thread was in the innermost open operator. */
static void was_in(struct rows *rows, struct thread_at *at, int64_t from)
{
	const struct breakdown *breakdown = &rows->capture->breakdown;
	const uint32_t stack = at->depth ? at->open[at->depth - 1].stack : 0;
	const int64_t to = at->now;
	const struct share *line = &rows->stacks[stack];
	at->now = from < to ? from : to;
	if (!line->file || to <= from)
		return;
	for (size_t i = ARRAY_BEFORE(breakdown->step_count, step, breakdown->steps[step].end <= from);
	     i < rows->last && i < breakdown->step_count && breakdown->steps[i].start < to && !too_many(rows); i++) {
		const struct breakdown_step *step = &breakdown->steps[i];
		int64_t start = step->start > from ? step->start : from, end = step->end < to ? step->end : to;
		if (i < rows->first)
			continue;
		if (at->thread == breakdown->step_thread)
			add_to_host(rows, start, end, line);
		for (size_t d = 0; d < breakdown->device_count; d++)
			add_to_device(rows, d, at->thread, start, end, line);
	}
}

static void go_back_to(struct rows *rows, struct thread_at *at, int64_t time)
{
	while (at->depth && at->open[at->depth - 1].start >= time) {
		was_in(rows, at, at->open[at->depth - 1].start);
		at->depth--;
	}
	was_in(rows, at, time);
}

static void take_operator(struct rows *rows, int64_t start, int64_t end, int64_t thread, int64_t stack)
{
	if (rows->threads.count == THREADS_MOST && numbered_find(&rows->threads, thread, 0, 0) == NUMBERED_NONE)
		return;
	struct thread_at *at = numbered_add(&rows->threads, thread, 0, 0);
	if (!at) {
		scan_no_memory(&rows->scan);
		return;
	}
	if (!at->begun) {
		at->begun = true;
		at->thread = thread;
		at->now = at->end = INT64_MAX;
	}
	rows->unsorted |= end > at->end;
	at->end = end;
	go_back_to(rows, at, end);
	if (at->depth && start < at->open[at->depth - 1].start)
		start = at->open[at->depth - 1].start;
	if (at->depth < DEPTH_MOST && end > start)
		at->open[at->depth++] = (struct open_operator){
			start, stack > 0 && (uint64_t)stack < rows->stack_count ? (uint32_t)stack : 0};
}

static void take_value(void *context, sqlite3_value **row)
{
	struct rows *rows = context;
	int64_t start = time_of(row[0]);
	/* An operator that another thread ended says nothing of its own. */
	if (!(int_of(row[4]) & EVENT_FLAG_ASYNC) && !rows->unsorted)
		take_operator(rows, start, end_of(start, int_of(row[1])), int_of(row[2]), int_of(row[3]));
}

static void take_sorted(void *context, sqlite3_stmt *row)
{
	int64_t start = bounded(row_int(row, 0));
	if (!(row_int(row, 4) & EVENT_FLAG_ASYNC))
		take_operator(context, start, end_of(start, row_int(row, 1)), row_int(row, 2), row_int(row, 3));
}

static void take_stack(void *context, sqlite3_stmt *row)
{
	struct rows *rows = context;
	int64_t stack = row_int(row, 0);
	if (stack > 0 && (uint64_t)stack < rows->stack_count)
		rows->stacks[stack] = shares_line(row);
}

static void end_operators(struct rows *rows)
{
	for (uint32_t i = 0; i < rows->threads.count; i++)
		go_back_to(rows, numbered_at(&rows->threads, i), INT64_MIN);
	numbered_deinit(&rows->threads);
}

static void take_operators(struct rows *rows)
{
	rows->stack_count = LIMIT_STACKS + 1;
	rows->stacks = calloc(rows->stack_count, sizeof *rows->stacks);
	if (!rows->stacks) {
		scan_no_memory(&rows->scan);
		return;
	}
	scan_each(&rows->scan,
		  "SELECT l.stack, 0, 0, " SHARES_LINE " FROM stack_lines l JOIN stacks f ON f.id = l.frame",
		  take_stack, rows);
	scan_table(&rows->scan,
		   "SELECT 1 FROM operators WHERE profd_row(start, duration, thread, stack, flags) ORDER BY rowid DESC",
		   take_value, rows);
	if (rows->unsorted) {
		numbered_deinit(&rows->threads);
		for (size_t row = 0; row < idle_at(rows->capture->breakdown.device_count, 0); row++)
			rows->of[row] = (struct of_row){.total = rows->of[row].total};
		numbered_deinit(&rows->lines);
		scan_each(
			&rows->scan,
			"SELECT start, duration, thread, stack, flags FROM operators ORDER BY thread, start + duration DESC, start",
			take_sorted, rows);
	}
	end_operators(rows);
	free(rows->stacks);
}

/* --- samples --- */

#define SAMPLES                                                                                                        \
	"SELECT s.time, s.duration, s.thread, " SHARES_LINE                                                            \
	" FROM samples s LEFT JOIN stack_lines l ON l.stack = s.stack LEFT JOIN stacks f ON f.id = l.frame"

static void take_sample(void *context, sqlite3_stmt *row)
{
	struct rows *rows = context;
	const struct breakdown *breakdown = &rows->capture->breakdown;
	const struct share line = shares_line(row);
	int64_t time = row_int(row, 0), ns = row_int(row, 1), thread = row_int(row, 2), end;
	size_t step = breakdown_step_of(breakdown, time);
	if (step < rows->first || step >= rows->last)
		return;
	if (thread == breakdown->step_thread)
		add(rows, breakdown_host_row(breakdown, time, &end), SAMPLED, &line, ns);
	for (size_t d = 0; d < breakdown->device_count; d++) {
		const struct breakdown_device *device = &breakdown->devices[d];
		size_t at = stretch_at(device, time);
		if (at == device->stretch_count || device->stretches[at].start > time ||
		    !is_of_host(&device->stretches[at]))
			continue;
		uint32_t late = late_at(rows, device, &device->stretches[at], time, &end);
		if (thread == (breakdown_follows(rows->capture, late) ? breakdown->step_thread : late))
			add(rows, idle_at(d, device->stretches[at].cause), SAMPLED, &line, ns);
	}
}

/* --- the answer --- */

static struct row_line settle(const struct of_row *of)
{
	enum way way = of->ns[RAN] >= of->total - of->total / 2 ? RAN : SAMPLED;
	struct row_line line = of->most[way].line;
	double whole = (double)(way == RAN ? of->total : of->ns[SAMPLED]);
	if (!of->total || !line.file || (way == SAMPLED && of->samples < SAMPLES_LEAST))
		return (struct row_line){0};
	line.share = (double)of->most[way].ns / whole;
	line.share = line.share > 1 ? 1 : line.share;
	return line;
}

static void add_totals(struct rows *rows)
{
	const struct breakdown *breakdown = &rows->capture->breakdown;
	for (size_t i = rows->first; i < rows->last; i++) {
		for (size_t row = 0; row < HOST_ROWS; row++)
			rows->of[row].total += breakdown->steps[i].host[row];
		for (size_t d = 0; d < breakdown->device_count; d++)
			for (size_t row = 0; row < IDLE_ROWS; row++)
				rows->of[idle_at(d, row)].total += breakdown->devices[d].steps[i].idle[row];
	}
}

static void take_any(void *context, sqlite3_stmt *row)
{
	(void)row;
	*(bool *)context = true;
}

static bool any(struct scan *scan, const char *sql)
{
	bool found = false;
	scan_each(scan, sql, take_any, &found);
	return found;
}

bool row_lines_recorded(sqlite3 *db)
{
	struct scan scan = {.db = db};
	return scan_has(db, "stack_lines", NULL) && any(&scan, "SELECT 1 FROM stack_lines LIMIT 1");
}

bool row_lines_find(const struct breakdown_capture *capture, sqlite3 *db, const struct breakdown_watch *watch,
		    size_t first, size_t last, struct row_lines *ret, int *ret_error)
{
	const struct breakdown *breakdown = &capture->breakdown;
	struct rows rows = {.scan = {.db = db, .watch = watch},
			    .capture = capture,
			    .first = first,
			    .last = last,
			    .lines = {.bytes = sizeof(struct of_line)},
			    .threads = {.bytes = sizeof(struct thread_at)}};
	*ret = (struct row_lines){.recorded = row_lines_recorded(db)};
	*ret_error = 0;
	if (!ret->recorded)
		return true;
	ret->idle = calloc(breakdown->device_count + 1, sizeof *ret->idle);
	rows.of = calloc(idle_at(breakdown->device_count, 0), sizeof *rows.of);
	if (!ret->idle || !rows.of) {
		free(rows.of);
		*ret_error = SQLITE_NOMEM;
		return false;
	}
	add_totals(&rows);
	scan_begin(&rows.scan, db, watch);
	if (scan_has(db, "operators", "stack") &&
	    any(&rows.scan, "SELECT 1 FROM operators WHERE stack IS NOT NULL LIMIT 1"))
		take_operators(&rows);
	if (scan_has(db, "samples", NULL))
		scan_each(&rows.scan, SAMPLES, take_sample, &rows);
	const bool told = rows.pieces <= PIECES_MOST;
	for (size_t row = 0; told && row < HOST_ROWS; row++)
		ret->host[row] = settle(&rows.of[row]);
	for (ret->devices = 0; ret->devices < breakdown->device_count; ret->devices++)
		for (size_t row = 0; told && row < IDLE_ROWS; row++)
			ret->idle[ret->devices][row] = settle(&rows.of[idle_at(ret->devices, row)]);
	numbered_deinit(&rows.lines);
	free(rows.of);
	scan_end(&rows.scan);
	*ret_error = rows.scan.error;
	return !rows.scan.error;
}

void row_lines_free(struct row_lines *lines)
{
	free(lines->idle);
	*lines = (struct row_lines){0};
}
