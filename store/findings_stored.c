/* findings_stored.c - see findings_stored.h. */
#include "findings_stored.h"

#include "breakdown/scan.h"
#include "file.h"

#include <stdlib.h>
#include <string.h>

/* A breakdown with more rows is not stored: nobody reads so many, and they are computed as fast as read. */
#define ROWS_MOST 200000
#define DEVICES_MOST 64

/* Sides of the table `breakdown`. */
enum side { ON_HOST, ON_DEVICE, ON_IDLE, ON_BESIDE, SIDES };
static const char *const side_words[SIDES] = {"host", "device", "idle", "beside"};
/* Figures beside the rows. */
enum {
	BESIDE_COMMUNICATION,
	BESIDE_COPIES,
	BESIDE_AFTER_SYNC,
	BESIDE_DEVICE_ROWS,
	BESIDE_TORCH_COMPILE = BESIDE_DEVICE_ROWS,
	BESIDE_ROWS
};
static const struct breakdown_row beside_rows[BESIDE_ROWS] = {
	{"hidden_communication", ""}, {"hidden_copies", ""}, {"after_sync", ""}, {"torch_compile", ""}};

static const struct {
	const struct breakdown_row *rows;
	size_t count;
} sides[SIDES] = {{breakdown_host_rows, HOST_ROWS},
		  {breakdown_device_rows, DEVICE_ROWS},
		  {breakdown_idle_rows, IDLE_ROWS},
		  {beside_rows, BESIDE_ROWS}};

static int64_t *beside_at(struct breakdown_device_step *step, size_t row)
{
	return row == BESIDE_COMMUNICATION ? &step->hidden_communication
	       : row == BESIDE_COPIES	   ? &step->hidden_copies
					   : &step->after_sync;
}

/* --- writing --- */

static void write_row(struct store *store, sqlite3_stmt *statement, size_t step, enum side side, int64_t device,
		      size_t row, int64_t ns)
{
	if (!ns || store->error)
		return;
	sqlite3_bind_int64(statement, 1, (int64_t)step + 1);
	sqlite3_bind_text(statement, 2, side_words[side], -1, SQLITE_STATIC);
	if (device < 0)
		sqlite3_bind_null(statement, 3);
	else
		sqlite3_bind_int64(statement, 3, device);
	sqlite3_bind_text(statement, 4, sides[side].rows[row].word, -1, SQLITE_STATIC);
	sqlite3_bind_int64(statement, 5, ns);
	store_step(store, statement);
}

static void write_device(struct store *store, sqlite3_stmt *statement, size_t step, struct breakdown_device *device)
{
	struct breakdown_device_step *at = &device->steps[step];
	for (size_t row = 0; row < DEVICE_ROWS; row++)
		write_row(store, statement, step, ON_DEVICE, device->device, row, at->rows[row]);
	for (size_t row = 0; row < IDLE_ROWS; row++)
		write_row(store, statement, step, ON_IDLE, device->device, row, at->idle[row]);
	for (size_t row = 0; row < BESIDE_DEVICE_ROWS; row++)
		write_row(store, statement, step, ON_BESIDE, device->device, row, *beside_at(at, row));
}

static bool write_breakdown(struct store *store, const struct breakdown *breakdown)
{
	size_t rows = breakdown->step_count * (8 + breakdown->device_count * 12);
	if (rows > ROWS_MOST || breakdown->device_count > DEVICES_MOST)
		return false;
	sqlite3_stmt *statement =
		store_prepare(store, "INSERT INTO breakdown (step, side, device, row, ns) VALUES (?, ?, ?, ?, ?)");
	for (size_t i = 0; statement && i < breakdown->step_count; i++) {
		for (size_t row = 0; row < HOST_ROWS; row++)
			write_row(store, statement, i, ON_HOST, -1, row, breakdown->steps[i].host[row]);
		write_row(store, statement, i, ON_BESIDE, -1, BESIDE_TORCH_COMPILE, breakdown->steps[i].compiled);
		for (size_t d = 0; d < breakdown->device_count; d++)
			write_device(store, statement, i, &breakdown->devices[d]);
	}
	sqlite3_finalize(statement);
	return true;
}

static void bind_known(sqlite3_stmt *statement, int at, int64_t value, bool known)
{
	if (known)
		sqlite3_bind_int64(statement, at, value);
	else
		sqlite3_bind_null(statement, at);
}

static void write_line(struct store *store, sqlite3_stmt *statement, enum side side, int64_t device, size_t row,
		       const struct row_line *line)
{
	if (!line->file || store->error)
		return;
	sqlite3_bind_text(statement, 1, side_words[side], -1, SQLITE_STATIC);
	bind_known(statement, 2, device, device >= 0);
	sqlite3_bind_text(statement, 3, sides[side].rows[row].word, -1, SQLITE_STATIC);
	sqlite3_bind_int64(statement, 4, line->file);
	sqlite3_bind_int64(statement, 5, line->line);
	bind_known(statement, 6, line->function, line->function != 0);
	sqlite3_bind_double(statement, 7, line->share);
	store_step(store, statement);
}

static void write_lines(struct store *store, const struct breakdown *breakdown, const struct row_lines *lines)
{
	if (!lines->recorded)
		return;
	sqlite3_stmt *statement =
		store_prepare(store, "INSERT INTO breakdown_lines (side, device, row, file, line, function, "
				     "share) VALUES (?, ?, ?, ?, ?, ?, ?)");
	for (size_t row = 0; statement && row < HOST_ROWS; row++)
		write_line(store, statement, ON_HOST, -1, row, &lines->host[row]);
	for (size_t d = 0; statement && d < lines->devices; d++)
		for (size_t row = 0; row < IDLE_ROWS; row++)
			write_line(store, statement, ON_IDLE, breakdown->devices[d].device, row, &lines->idle[d][row]);
	sqlite3_finalize(statement);
}

/* Writes when collections of garbage began and ended, as the operators tell it. */
static void write_collections(struct store *store, const struct collections *collections)
{
	sqlite3_stmt *statement = NULL;
	for (size_t i = 0; i < collections->count && !store->error; i++) {
		const struct collection *item = &collections->items[i];
		int64_t error = collection_start_error(item), end_error = collection_end_error(item);
		if (!error && !end_error)
			continue;
		if (!statement)
			statement = store_prepare(store,
						  "UPDATE garbage_collections SET start = ?, duration = ?, error = ?, "
						  "end_error = ? WHERE rowid = ?");
		if (!statement)
			return;
		sqlite3_bind_int64(statement, 1, item->start);
		sqlite3_bind_int64(statement, 2, item->end - item->start);
		sqlite3_bind_int64(statement, 3, error);
		sqlite3_bind_int64(statement, 4, end_error);
		sqlite3_bind_int64(statement, 5, item->row);
		store_step(store, statement);
	}
	sqlite3_finalize(statement);
}

static void write_finding(struct store *store, sqlite3_stmt *statement, size_t number, const struct finding *finding)
{
	int at = 0;
	sqlite3_bind_int64(statement, ++at, (int64_t)number);
	sqlite3_bind_text(statement, ++at, finding_facts(finding->kind)->word, -1, SQLITE_STATIC);
	bind_known(statement, ++at, finding->device, finding->device >= 0);
	bind_known(statement, ++at, finding->step, finding->step > 0);
	sqlite3_bind_int64(statement, ++at, finding->ns);
	sqlite3_bind_int64(statement, ++at, finding->least_ns);
	sqlite3_bind_int64(statement, ++at, finding->most_ns);
	sqlite3_bind_double(statement, ++at, finding->share);
	sqlite3_bind_double(statement, ++at, finding->least);
	sqlite3_bind_double(statement, ++at, finding->most);
	sqlite3_bind_int64(statement, ++at, finding->win_ns);
	sqlite3_bind_double(statement, ++at, finding->win);
	sqlite3_bind_text(statement, ++at, finding->subject, -1, SQLITE_STATIC);
	sqlite3_bind_text(statement, ++at, finding->what, -1, SQLITE_STATIC);
	sqlite3_bind_text(statement, ++at, finding->evidence, -1, SQLITE_STATIC);
	sqlite3_bind_text(statement, ++at, finding->advice, -1, SQLITE_STATIC);
	sqlite3_bind_text(statement, ++at, finding->sql, -1, SQLITE_STATIC);
	sqlite3_bind_int64(statement, ++at, (int64_t)(finding->interval_total & INT64_MAX));
	store_step(store, statement);
}

static void write_intervals(struct store *store, sqlite3_stmt *statement, size_t number, const struct finding *finding)
{
	for (size_t i = 0; i < finding->interval_count && !store->error; i++) {
		const struct finding_interval *interval = &finding->intervals[i];
		sqlite3_bind_int64(statement, 1, (int64_t)number);
		bind_known(statement, 2, interval->step, true);
		sqlite3_bind_int64(statement, 3, interval->start);
		sqlite3_bind_int64(statement, 4, interval->end - interval->start);
		bind_known(statement, 5, interval->thread, interval->thread);
		bind_known(statement, 6, interval->name, interval->name);
		bind_known(statement, 7, interval->outer, interval->outer);
		store_step(store, statement);
	}
}

static void write_findings(struct store *store, const struct findings *findings)
{
	sqlite3_stmt *rows = store_prepare(
		store,
		"INSERT INTO findings (number, finding, device, step, ns, min_ns, max_ns, share, min, max, win_ns, win, subject, what, "
		"evidence, try, sql, intervals) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
	sqlite3_stmt *intervals = store_prepare(
		store,
		"INSERT INTO finding_intervals (finding, step, start, duration, thread, name, operator) VALUES (?, ?, ?, ?, ?, ?, ?)");
	for (size_t i = 0; rows && intervals && i < findings->count; i++) {
		write_finding(store, rows, i + 1, &findings->items[i]);
		write_intervals(store, intervals, i + 1, &findings->items[i]);
	}
	sqlite3_finalize(rows);
	sqlite3_finalize(intervals);
}

void findings_write(struct store *store, const struct breakdown_capture *capture, const struct findings *findings,
		    const struct row_lines *lines)
{
	write_collections(store, &capture->collections);
	if (!write_breakdown(store, &capture->breakdown))
		return;
	write_lines(store, &capture->breakdown, lines);
	write_findings(store, findings);
	store_meta_text(store, "verdict", findings->verdict);
	store_meta_text(store, "verdict_abstains", findings->abstains);
	store_meta_text(store, "breakdown_doubt", capture->doubt);
	store_meta_int(store, "verdict_first", (int64_t)findings->first);
	store_meta_int(store, "verdict_last", (int64_t)findings->last);
	store_meta_int(store, "verdict_steps", (int64_t)findings->judged);
	store_meta_int(store, "verdict_step", findings->step_ns);
	store_meta_int(store, "verdict_step_min", findings->least_step_ns);
	store_meta_int(store, "verdict_step_max", findings->most_step_ns);
	store_meta_int(store, "verdict_device", findings->device);
}

/* --- reading --- */

struct reading {
	struct scan scan;
	struct breakdown_capture *capture;
	struct findings *findings;
	size_t room;
};

static size_t row_at(enum side side, const char *word)
{
	size_t row = 0;
	while (row < sides[side].count && strcmp(sides[side].rows[row].word, word) != 0)
		row++;
	return row;
}

static struct breakdown_device *device_of(struct reading *reading, int64_t number)
{
	struct breakdown *breakdown = &reading->capture->breakdown;
	for (size_t d = 0; d < breakdown->device_count; d++)
		if (breakdown->devices[d].device == number)
			return &breakdown->devices[d];
	if (breakdown->device_count == DEVICES_MOST) {
		reading->scan.error = SQLITE_CORRUPT;
		return NULL;
	}
	if (!breakdown->devices)
		/* NOLINTNEXTLINE(-Wanalyzer-malloc-leak): breakdown_free() frees it */
		breakdown->devices = calloc(DEVICES_MOST, sizeof *breakdown->devices);
	struct breakdown_device_step *steps = calloc(breakdown->step_count + 1, sizeof *steps);
	if (!breakdown->devices || !steps) {
		free(steps);
		reading->scan.error = SQLITE_NOMEM;
		return NULL;
	}
	breakdown->devices[breakdown->device_count] = (struct breakdown_device){.device = number, .steps = steps};
	return &breakdown->devices[breakdown->device_count++];
}

/* A file with impossible values is damaged. */
static void take_row(void *context, sqlite3_stmt *row)
{
	struct reading *reading = context;
	struct breakdown *breakdown = &reading->capture->breakdown;
	const char *word = (const char *)sqlite3_column_text(row, 1), *name = (const char *)sqlite3_column_text(row, 3);
	int64_t step = sqlite3_column_int64(row, 0), ns = sqlite3_column_int64(row, 4);
	size_t side = 0;
	while (word && side < SIDES && strcmp(side_words[side], word) != 0)
		side++;
	size_t found = word && name && side < SIDES ? row_at((enum side)side, name) : SIZE_MAX;
	if (side >= SIDES || found >= sides[side].count || step < 1 || (uint64_t)step > breakdown->step_count ||
	    ns < 0 || ns > breakdown->steps[step - 1].end - breakdown->steps[step - 1].start) {
		reading->scan.error = SQLITE_CORRUPT;
		return;
	}
	if (side == ON_HOST) {
		breakdown->steps[step - 1].host[found] = ns;
		return;
	}
	if (side == ON_BESIDE && found == BESIDE_TORCH_COMPILE) {
		breakdown->steps[step - 1].compiled = ns;
		return;
	}
	struct breakdown_device *device = device_of(reading, sqlite3_column_int64(row, 2));
	if (!device)
		return;
	struct breakdown_device_step *at = &device->steps[step - 1];
	*(side == ON_DEVICE ? &at->rows[found] : side == ON_IDLE ? &at->idle[found] : beside_at(at, found)) = ns;
}

static void copy_text(char *to, size_t bytes, sqlite3_stmt *row, int column)
{
	const char *text = (const char *)sqlite3_column_text(row, column);
	text_copy(to, bytes, text ? text : "");
}

static double part(sqlite3_stmt *row, int column)
{
	double value = sqlite3_column_double(row, column);
	return value >= 0 && value <= 1 ? value : 0;
}

static void take_finding(void *context, sqlite3_stmt *row)
{
	struct reading *reading = context;
	struct findings *findings = reading->findings;
	const char *word = (const char *)sqlite3_column_text(row, 0);
	enum finding_kind kind = word ? finding_kind(word) : FINDING_KINDS;
	if (kind == FINDING_KINDS || findings->count == FINDINGS_MOST) {
		reading->scan.error = SQLITE_CORRUPT;
		return;
	}
	struct finding *finding = &findings->items[findings->count++];
	finding->kind = kind;
	finding->device = sqlite3_column_type(row, 1) == SQLITE_NULL ? -1 : sqlite3_column_int64(row, 1);
	finding->step = sqlite3_column_int64(row, 2);
	finding->ns = sqlite3_column_int64(row, 3);
	finding->least_ns = sqlite3_column_int64(row, 4);
	finding->most_ns = sqlite3_column_int64(row, 5);
	finding->share = part(row, 6);
	finding->least = part(row, 7);
	finding->most = part(row, 8);
	finding->win_ns = sqlite3_column_int64(row, 9);
	finding->win = part(row, 10);
	copy_text(finding->subject, sizeof finding->subject, row, 11);
	copy_text(finding->what, sizeof finding->what, row, 12);
	copy_text(finding->evidence, sizeof finding->evidence, row, 13);
	copy_text(finding->advice, sizeof finding->advice, row, 14);
	copy_text(finding->sql, sizeof finding->sql, row, 15);
	finding->interval_total = (uint64_t)sqlite3_column_int64(row, 16);
}

static void take_interval(void *context, sqlite3_stmt *row)
{
	struct reading *reading = context;
	struct findings *findings = reading->findings;
	int64_t number = sqlite3_column_int64(row, 0), start = sqlite3_column_int64(row, 2), end;
	if (number < 1 || (uint64_t)number > findings->count ||
	    findings->items[number - 1].interval_count == FINDING_INTERVALS ||
	    __builtin_add_overflow(start, sqlite3_column_int64(row, 3), &end) || end < start) {
		reading->scan.error = SQLITE_CORRUPT;
		return;
	}
	struct finding *finding = &findings->items[number - 1];
	finding->intervals[finding->interval_count++] =
		(struct finding_interval){.step = sqlite3_column_int64(row, 1),
					  .start = start,
					  .end = end,
					  .thread = (uint32_t)sqlite3_column_int64(row, 4),
					  .name = (uint32_t)sqlite3_column_int64(row, 5),
					  .outer = (uint32_t)sqlite3_column_int64(row, 6)};
}

static void take_meta(void *context, sqlite3_stmt *row)
{
	struct reading *reading = context;
	struct findings *findings = reading->findings;
	struct breakdown_capture *capture = reading->capture;
	const char *key = (const char *)sqlite3_column_text(row, 0);
	int64_t value = sqlite3_column_int64(row, 1), steps = (int64_t)capture->breakdown.step_count;
	size_t bounded = (size_t)(value < 0 ? 0 : value > steps ? steps : value);
	if (strcmp(key, "verdict") == 0)
		copy_text(findings->verdict, sizeof findings->verdict, row, 1);
	else if (strcmp(key, "verdict_abstains") == 0)
		copy_text(findings->abstains, sizeof findings->abstains, row, 1);
	else if (strcmp(key, "breakdown_doubt") == 0)
		copy_text(capture->doubt, sizeof capture->doubt, row, 1);
	else if (strcmp(key, "verdict_first") == 0)
		findings->first = bounded;
	else if (strcmp(key, "verdict_last") == 0)
		findings->last = bounded;
	else if (strcmp(key, "verdict_steps") == 0)
		findings->judged = bounded;
	else if (strcmp(key, "verdict_step") == 0)
		findings->step_ns = value;
	else if (strcmp(key, "verdict_step_min") == 0)
		findings->least_step_ns = value;
	else if (strcmp(key, "verdict_step_max") == 0)
		findings->most_step_ns = value;
	else if (strcmp(key, "verdict_device") == 0)
		findings->device = value;
}

static bool is_stored(struct reading *reading)
{
	sqlite3_stmt *statement = NULL;
	reading->scan.error = sqlite3_prepare_v2(
		reading->scan.db,
		"SELECT 1 FROM meta WHERE key = 'verdict' AND (SELECT count(*) FROM sqlite_master WHERE "
		"name IN ('breakdown', 'findings', 'finding_intervals')) = 3",
		-1, &statement, NULL);
	bool stored = !reading->scan.error && sqlite3_step(statement) == SQLITE_ROW;
	sqlite3_finalize(statement);
	return stored;
}

bool findings_read(sqlite3 *db, const struct breakdown_watch *watch, struct breakdown_capture *capture,
		   struct findings *ret, int *ret_error)
{
	struct reading reading = {.scan = {.db = db, .watch = watch}, .capture = capture, .findings = ret};
	*capture = (struct breakdown_capture){0};
	*ret = (struct findings){.device = -1};
	*ret_error = 0;
	if (!is_stored(&reading)) {
		*ret_error = reading.scan.error;
		return false;
	}
	if (!breakdown_capture_steps(db, watch, capture, ret_error))
		return false;
	scan_each(&reading.scan,
		  "SELECT step, side, device, row, ns FROM breakdown ORDER BY device, step LIMIT 1000000", take_row,
		  &reading);
	scan_each(
		&reading.scan,
		"SELECT finding, device, step, ns, min_ns, max_ns, share, min, max, win_ns, win, subject, what, evidence, try, sql, "
		"intervals FROM findings ORDER BY number LIMIT 4",
		take_finding, &reading);
	scan_each(
		&reading.scan,
		"SELECT finding, step, start, duration, thread, name, operator FROM finding_intervals ORDER BY finding, start LIMIT 1000",
		take_interval, &reading);
	scan_each(&reading.scan, "SELECT key, value FROM meta WHERE key GLOB 'verdict*' OR key = 'breakdown_doubt'",
		  take_meta, &reading);
	ret->recorded = capture->breakdown.step_count;
	ret->window = capture->window;
	*ret_error = reading.scan.error;
	return !reading.scan.error;
}

struct reading_lines {
	struct scan scan;
	const struct breakdown *breakdown;
	struct row_lines *lines;
};

static void take_line(void *context, sqlite3_stmt *row)
{
	struct reading_lines *reading = context;
	const struct breakdown *breakdown = reading->breakdown;
	const char *word = (const char *)sqlite3_column_text(row, 0), *name = (const char *)sqlite3_column_text(row, 2);
	enum side side = word && strcmp(word, side_words[ON_HOST]) == 0 ? ON_HOST : ON_IDLE;
	size_t at = name ? row_at(side, name) : SIZE_MAX, d = 0;
	struct row_line line = {.file = sqlite3_column_int64(row, 3),
				.line = sqlite3_column_int64(row, 4),
				.function = sqlite3_column_int64(row, 5),
				.share = part(row, 6)};
	while (side == ON_IDLE && d < breakdown->device_count &&
	       breakdown->devices[d].device != sqlite3_column_int64(row, 1))
		d++;
	if (at >= sides[side].count || (side == ON_IDLE && d == breakdown->device_count))
		reading->scan.error = SQLITE_CORRUPT;
	else
		*(side == ON_HOST ? &reading->lines->host[at] : &reading->lines->idle[d][at]) = line;
}

bool row_lines_read(sqlite3 *db, const struct breakdown_watch *watch, const struct breakdown *breakdown,
		    struct row_lines *ret, int *ret_error)
{
	struct reading_lines reading = {.scan = {.db = db, .watch = watch}, .breakdown = breakdown, .lines = ret};
	*ret = (struct row_lines){.recorded = row_lines_recorded(db)};
	*ret_error = 0;
	if (!ret->recorded)
		return true;
	ret->idle = calloc(breakdown->device_count + 1, sizeof *ret->idle);
	if (ret->idle)
		ret->devices = breakdown->device_count;
	else
		scan_no_memory(&reading.scan);
	scan_each(&reading.scan,
		  "SELECT side, device, row, file, line, function, share FROM breakdown_lines LIMIT 10000", take_line,
		  &reading);
	*ret_error = reading.scan.error;
	return !reading.scan.error;
}
