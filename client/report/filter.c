/* filter.c - see filter.h. The part is made of views in the connection's own (temporary) schema. They have the names
 * of the file's tables and hide them, so that the queries of the reports need not know about the part. */
#include "filter.h"

#include "client/ui/failure.h"
#include "client/ui/text.h"
#include "query.h"

#include "store/breakdown/load.h"
#include "store/fold_rule.h"
#include "proto/base/array.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct span {
	int64_t thread, start, end;
};

/* What the host did belongs to the part if it begins in one of these. */
struct filter_spans {
	int64_t thread; /* -1: all */
	bool ranged;
	struct span *list; /* sorted; those of one thread do not overlap */
	size_t count, room;
	unsigned phases; /* 0: all */
	const struct breakdown_capture *breakdown;
	struct breakdown_asked asked;
};

unsigned filter_parts(const struct filter *filter)
{
	return (filter->range || filter->thread >= 0 || filter->phases ? FILTER_HOST : 0) |
	       (filter->device >= 0 || filter->stream >= 0 ? FILTER_DEVICE : 0);
}

bool filter_has_device(const struct filter *filter, int64_t device)
{
	return !filter || filter->device < 0 || filter->device == device;
}

bool filter_has_phase(const struct filter *filter, unsigned phase)
{
	return !filter || !filter->phases || filter->phases & 1u << phase;
}

#define TRAIN (1u << PHASE_FORWARD | 1u << PHASE_BACKWARD | 1u << PHASE_OPTIMIZER | 1u << PHASE_ZERO_GRAD)

#define EVALUATION (1u << PHASE_VALIDATION | 1u << PHASE_TEST | 1u << PHASE_EVALUATION)

/* The phases of a word, which may mean several. */
static unsigned phases_named(const char *word, size_t bytes)
{
	static const struct {
		const char *word;
		unsigned phases;
	} others[] = {{"train", TRAIN}, {"evaluation", EVALUATION}};
	enum phase phase = breakdown_phase_named(word, bytes);

	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (strlen(others[i].word) == bytes && memcmp(others[i].word, word, bytes) == 0)
			return others[i].phases;
	return phase == PHASE_COUNT ? 0 : 1u << phase;
}

/* The words of the phases, with commas between them. Returns `to`. */
static const char *phases_text(unsigned phases, char *to, size_t bytes)
{
	size_t n = 0;

	to[0] = '\0';
	for (unsigned phase = 0; phase < PHASE_COUNT && n < bytes; phase++)
		if (phases & 1u << phase)
			n += (size_t)snprintf(to + n, bytes - n, "%s%s", n ? ", " : "",
					      breakdown_phase_row(phase)->word);
	return to;
}

unsigned filter_phases(const char *words, char *why, size_t bytes)
{
	unsigned phases = 0, all = (1u << PHASE_COUNT) - 1;
	char known[128];

	for (const char *word = words;; word++) {
		size_t length = strcspn(word, ",");
		unsigned named = phases_named(word, length);

		if (!named) {
			snprintf(
				why, bytes,
				"no phase is called '%.*s': --phase takes %s, and train (forward, backward, optimizer, "
				"zero_grad); evaluation is validation and test, too; several with commas between",
				(int)(length < 40 ? length : 40), word, phases_text(all, known, sizeof known));
			return 0;
		}
		phases |= named;
		word += length;
		if (!*word)
			return phases;
	}
}

const char *filter_text(const struct filter *filter, char *to, size_t bytes)
{
	size_t n = 0;
	char words[128];
	const struct {
		const char *word;
		int64_t value;
	} numbers[] = {{"thread", filter->thread}, {"device", filter->device}, {"stream", filter->stream}};

	to[0] = '\0';
	if (filter->range)
		n = (size_t)snprintf(to, bytes, "range %.200s", filter->range);
	if (filter->phases && n < bytes)
		n += (size_t)snprintf(to + n, bytes - n, "%sphase %s", n ? ", " : "",
				      phases_text(filter->phases, words, sizeof words));
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers && n < bytes; i++)
		if (numbers[i].value >= 0)
			n += (size_t)snprintf(to + n, bytes - n, "%s%s %lld", n ? ", " : "", numbers[i].word,
					      (long long)numbers[i].value);
	return to;
}

static int by_place(const void *a, const void *b)
{
	const struct span *one = a, *other = b;

	return ORDER(one->thread, other->thread) ?: ORDER(one->start, other->start);
}

/* Joins spans of a thread that overlap. */
static void merge(struct filter_spans *spans)
{
	size_t kept = 0;

	if (!spans->count)
		return;
	qsort(spans->list, spans->count, sizeof *spans->list, by_place);
	for (size_t i = 1; i < spans->count; i++) {
		struct span *last = &spans->list[kept];
		const struct span *next = &spans->list[i];

		if (next->thread == last->thread && next->start < last->end)
			last->end = next->end > last->end ? next->end : last->end;
		else
			spans->list[++kept] = *next;
	}
	spans->count = kept + 1;
}

static void add_spans(const struct reader *reader, struct filter_spans *spans, const char *sql, int64_t name)
{
	sqlite3_stmt *statement = report_prepare(reader, sql);

	sqlite3_bind_int64(statement, 1, name);
	while (report_next(reader, statement)) {
		int64_t start = sqlite3_column_int64(statement, 1), length = sqlite3_column_int64(statement, 2), end;

		if (length < 0 || __builtin_add_overflow(start, length, &end))
			continue;
		NEED_ROOM(spans->list, spans->count, spans->room);
		spans->list[spans->count++] = (struct span){sqlite3_column_int64(statement, 0), start, end};
	}
}

/* The intervals of the ranges and operators of this name. False: there are none. */
static bool find_spans(const struct reader *reader, const char *name, struct filter_spans *spans)
{
	sqlite3_stmt *statement =
		report_prepare(reader, "SELECT id, text FROM strings WHERE id IN (SELECT name FROM range_totals) OR "
				       "id IN (SELECT name FROM operator_totals)");
	int64_t *names = NULL;
	size_t count = 0;

	while (report_next(reader, statement)) {
		const char *text = (const char *)sqlite3_column_text(statement, 1);

		if (!text || (strcmp(text, name) != 0 && !glob_matches(name, text)))
			continue;
		names = need(reallocarray(names, count + 1, sizeof *names));
		names[count++] = sqlite3_column_int64(statement, 0);
	}
	/* An asynchronous range or operator is on no thread's stack: nothing lies in it. */
	for (size_t i = 0; i < count; i++) {
		add_spans(reader, spans, "SELECT thread, start, duration FROM ranges WHERE name = ?1 AND NOT flags & 2",
			  names[i]);
		add_spans(reader, spans,
			  "SELECT thread, start, duration FROM operators WHERE name = ?1 AND NOT flags & 2", names[i]);
	}
	free(names);
	merge(spans);
	return spans->count > 0;
}

static bool inside(struct filter_spans *spans, int64_t thread, int64_t start)
{
	if (spans->thread >= 0 && thread != spans->thread)
		return false;
	if (spans->phases &&
	    !(spans->phases & 1u << breakdown_phase(spans->breakdown, &spans->asked, (uint32_t)thread, start)))
		return false;
	if (!spans->ranged)
		return true;
	/* The last span that does not begin later. */
	size_t low = ARRAY_BEFORE(spans->count, middle,
				  spans->list[middle].thread < thread ||
					  (spans->list[middle].thread == thread && spans->list[middle].start <= start));
	return low > 0 && spans->list[low - 1].thread == thread && start < spans->list[low - 1].end;
}

/* SQL's in_part(thread, start) */
static void in_part(sqlite3_context *context, int count, sqlite3_value **values)
{
	struct filter_spans *spans = sqlite3_user_data(context);
	bool known = count == 2 && sqlite3_value_type(values[0]) == SQLITE_INTEGER &&
		     sqlite3_value_type(values[1]) == SQLITE_INTEGER;

	sqlite3_result_int(context,
			   known && inside(spans, sqlite3_value_int64(values[0]), sqlite3_value_int64(values[1])));
}

/* %s: first the condition on the launch l, or nothing; then the condition on the operation r, or nothing. */
#define TIMED(what) "CASE WHEN r.start IS NOT NULL THEN " what " END"
#define SUMS                                                                                                           \
	"count(*) AS calls, CAST(total(" TIMED("r.duration") ") AS INTEGER) AS total, min(" TIMED(                     \
		"r.duration") ") AS "                                                                                  \
			      "\"min\", max(" TIMED("r.duration") ") AS \"max\""
#define BYTES_SUMS                                                                                                     \
	"count(*) AS calls, sum(r.bytes) AS bytes, CAST(total(" TIMED(                                                 \
		"r.duration") ") AS INTEGER) AS "                                                                      \
			      "total, min(" TIMED("r.duration") ") AS \"min\", max(" TIMED(                            \
				      "r.duration") ") AS \"max\""
#define LAUNCHED "LEFT JOIN main.launches l ON l.correlation = r.correlation"
#define PLACE "r.device AS device, r.stream AS stream, l.step AS step"

static const char *const device_views[] = {
	"CREATE TEMP VIEW kernel_totals AS SELECT coalesce(n.name, r.name) AS name, " PLACE ", " SUMS
	" FROM main.kernel_records r " LAUNCHED " LEFT JOIN main.kernel_names n ON n.mangled = r.name WHERE %s AND %s "
	"GROUP BY 1, 2, 3, 4",
	"CREATE TEMP VIEW copy_totals AS SELECT r.kind AS kind, r.source_kind AS source_kind, r.target_kind AS "
	"target_kind, " PLACE ", " BYTES_SUMS " FROM main.copy_records r " LAUNCHED
	" WHERE %s AND %s GROUP BY 1, 2, 3, "
	"4, 5, 6",
	"CREATE TEMP VIEW set_totals AS SELECT r.memory_kind AS memory_kind, " PLACE ", " BYTES_SUMS
	" FROM main.set_records r " LAUNCHED " WHERE %s AND %s GROUP BY 1, 2, 3, 4",
	"CREATE TEMP VIEW graph_totals AS SELECT r.graph AS graph, " PLACE ", " SUMS
	" FROM main.graph_records r " LAUNCHED " WHERE %s AND %s GROUP BY 1, 2, 3, 4",
	"CREATE TEMP VIEW kernel_records AS SELECT r.* FROM main.kernel_records r " LAUNCHED " WHERE %s AND %s",
	"CREATE TEMP VIEW copy_records AS SELECT r.* FROM main.copy_records r " LAUNCHED " WHERE %s AND %s",
	"CREATE TEMP VIEW set_records AS SELECT r.* FROM main.set_records r " LAUNCHED " WHERE %s AND %s",
	"CREATE TEMP VIEW graph_records AS SELECT r.* FROM main.graph_records r " LAUNCHED " WHERE %s AND %s",
	"CREATE TEMP VIEW kernels AS SELECT r.* FROM main.kernels r " LAUNCHED " WHERE %s AND %s",
	"CREATE TEMP VIEW copies AS SELECT r.* FROM main.copies r " LAUNCHED " WHERE %s AND %s",
	"CREATE TEMP VIEW sets AS SELECT r.* FROM main.sets r " LAUNCHED " WHERE %s AND %s",
};

/* The totals of operators are made as in derive (store/derive_totals.c): FOLD_SQL joins operators that are one call. */
static const char *const host_views[] = {
	"CREATE TEMP VIEW operators AS SELECT * FROM main.operators WHERE in_part(thread, start)",
	"CREATE TEMP VIEW ranges AS SELECT * FROM main.ranges WHERE in_part(thread, start)",
	"CREATE TEMP VIEW marks AS SELECT * FROM main.marks WHERE in_part(thread, time)",
	"CREATE TEMP VIEW api_calls AS SELECT rowid AS rowid, * FROM main.api_calls WHERE in_part(thread, start)",
	"CREATE TEMP VIEW launches AS SELECT * FROM main.launches WHERE in_part(thread, start)",
	"CREATE TEMP VIEW samples AS SELECT * FROM main.samples WHERE in_part(thread, time)",
	/* These are sums for each thread: they are read only if the filter is a thread and nothing else. */
	"CREATE TEMP VIEW line_totals AS SELECT * FROM main.line_totals WHERE in_part(thread, 0)",
	"CREATE TEMP VIEW function_totals AS SELECT * FROM main.function_totals WHERE in_part(thread, 0)",
	"CREATE TEMP VIEW collectives AS SELECT * FROM main.collectives WHERE in_part(thread, start)",
	"CREATE TEMP VIEW syncs AS SELECT * FROM main.syncs WHERE correlation IN (SELECT correlation FROM main.api_calls "
	"WHERE correlation IS NOT NULL AND in_part(thread, start))",
	"CREATE TEMP VIEW api_totals AS SELECT name, domain, step, count(*) AS calls, sum(duration) AS total, "
	"min(duration) AS \"min\", max(duration) AS \"max\", sum(result <> 0) AS failed FROM main.api_calls WHERE "
	"in_part(thread, start) GROUP BY 1, 2, 3",
	"CREATE TEMP VIEW range_totals AS SELECT r.name, r.domain, r.source, r.step, count(*) AS calls, sum(r.self) AS "
	"self, sum(r.duration) AS total, min(r.duration) AS \"min\", max(r.duration) AS \"max\", coalesce(sum(d.self), "
	"0) AS self_device, coalesce(sum(d.total), 0) AS device FROM main.ranges r LEFT JOIN main.range_devices d ON "
	"d.id = r.id WHERE in_part(r.thread, r.start) GROUP BY 1, 2, 3, 4",
	"CREATE TEMP VIEW operator_totals AS WITH " FOLD_SQL(
		"main.operators",
		"main.operators") " "
				  "SELECT o.name, o.step, sum(f.id IS NULL) AS calls, sum(o.self) AS self, CAST(total(CASE WHEN f.id IS NULL THEN "
				  "o.duration END) AS INTEGER) AS total, min(CASE WHEN f.id IS NULL THEN o.duration END) AS \"min\", max(CASE "
				  "WHEN f.id IS NULL THEN o.duration END) AS \"max\", coalesce(sum(d.self), 0) AS self_device, "
				  "CAST(total(CASE WHEN f.id IS NULL THEN d.total END) AS INTEGER) AS device FROM main.operators o LEFT JOIN "
				  "folded f ON f.id = o.id LEFT JOIN main.range_devices d ON d.id = o.id WHERE in_part(o.thread, o.start) GROUP BY "
				  "1, 2",
};

/* %lld: the device. torch numbers devices by type; the CPU is not meant here; 255: there is one device of the type. */
#define TORCH_DEVICE "WHERE device_type <> 0 AND iif(device = 255, 0, device) = %lld"
static const char *const memory_views[] = {
	"CREATE TEMP VIEW devices AS SELECT * FROM main.devices WHERE id = %lld",
	"CREATE TEMP VIEW allocations AS SELECT rowid AS rowid, * FROM main.allocations WHERE device = %lld",
	"CREATE TEMP VIEW memory_steps AS SELECT * FROM main.memory_steps " TORCH_DEVICE,
	"CREATE TEMP VIEW memory_holders AS SELECT * FROM main.memory_holders " TORCH_DEVICE,
	"CREATE TEMP VIEW memory_leaks AS SELECT * FROM main.memory_leaks " TORCH_DEVICE,
};

static void execute(const struct reader *reader, const char *sql)
{
	if (sqlite3_exec(reader->db, sql, NULL, NULL, NULL) != SQLITE_OK)
		report_damaged(reader);
}

static void make_device(const struct reader *reader, const struct filter *filter, unsigned parts)
{
	const char *launch = parts & FILTER_HOST ? "in_part(l.thread, l.start)" : "1";
	char device[48] = "1", operation[96], sql[1536];

	if (parts & FILTER_DEVICE && filter->device >= 0)
		snprintf(device, sizeof device, "r.device = %lld", (long long)filter->device);
	if (parts & FILTER_DEVICE && filter->stream >= 0)
		snprintf(operation, sizeof operation, "%s AND r.stream = %lld", device, (long long)filter->stream);
	else
		snprintf(operation, sizeof operation, "%s", device);
	for (size_t i = 0; i < sizeof device_views / sizeof *device_views; i++) {
		snprintf(sql, sizeof sql, device_views[i], launch, operation);
		execute(reader, sql);
	}
	if (!(parts & FILTER_DEVICE))
		return;
	/* Stream -1 is the device as a whole. */
	snprintf(sql, sizeof sql,
		 "CREATE TEMP VIEW step_devices AS SELECT r.* FROM main.step_devices r WHERE %s AND (%lld < 0 OR "
		 "r.stream IN (-1, %lld))",
		 device, (long long)filter->stream, (long long)filter->stream);
	execute(reader, sql);
	for (size_t i = 0; filter->device >= 0 && i < sizeof memory_views / sizeof *memory_views; i++) {
		snprintf(sql, sizeof sql, memory_views[i], (long long)filter->device);
		execute(reader, sql);
	}
}

/* Says that nothing is in these phases. */
static int no_such_phase(unsigned wanted, unsigned there)
{
	char words[128], others[128];
	unsigned named = there & ~(1u << PHASE_NONE);
	bool unnamed = wanted & EVALUATION && there & (1u << PHASE_EVALUATION | 1u << PHASE_INFERENCE);

	return fail(EXIT_NO_TARGET,
		    "the capture has nothing in the phase %s; it has: %s%s (docs/breakdown.md says how "
		    "phases are found; `profd show --by phases` lists them)",
		    phases_text(wanted, words, sizeof words),
		    named ? phases_text(named, others, sizeof others) : "no phase at all",
		    !unnamed			    ? ""
		    : there & 1u << PHASE_INFERENCE ? ", of which nobody said what it is for: try --phase inference"
						    : ", and nobody said which: try --phase evaluation");
}

/* Devices, and streams, that have records. ?1: the device, or -1. */
#define WORKED(what)                                                                                                   \
	"SELECT " what " FROM kernel_totals WHERE ?1 IN (-1, device) UNION SELECT " what                               \
	" FROM copy_totals WHERE ?1 IN (-1, device) UNION SELECT " what                                                \
	" FROM set_totals WHERE ?1 IN (-1, device) UNION SELECT " what " FROM graph_totals WHERE ?1 IN (-1, device)"
#define DEVICES WORKED("device") " UNION SELECT id FROM device_records"
#define THREADS                                                                                                        \
	"SELECT thread FROM operators UNION SELECT thread FROM ranges UNION SELECT thread FROM marks UNION "           \
	"SELECT thread FROM api_calls UNION SELECT thread FROM samples UNION SELECT thread FROM steps"
#define NAMED_MOST 8

/* `sql` selects the ids that exist. */
static int find_number(const struct reader *whole, const char *word, const char *view, int64_t value, int64_t device,
		       const char *sql)
{
	char listed[256] = "", text[1200];
	size_t n = 0, count = 0;
	bool found = value < 0;

	if (found)
		return EXIT_DONE;
	snprintf(text, sizeof text, "SELECT * FROM (%s) ORDER BY 1", sql);
	sqlite3_stmt *statement = report_prepare(whole, text);
	sqlite3_bind_int64(statement, 1, device);
	while (report_next(whole, statement)) {
		int64_t id = sqlite3_column_int64(statement, 0);

		if (sqlite3_column_type(statement, 0) == SQLITE_NULL)
			continue;
		found = found || id == value;
		if (count++ < NAMED_MOST)
			n += (size_t)snprintf(listed + n, sizeof listed - n, "%s%lld", n ? ", " : "", (long long)id);
	}
	if (found || !count)
		return EXIT_DONE;
	return fail(EXIT_NO_TARGET, "the capture has no %s %lld; it has %s%s (`profd show --by %s` lists them)", word,
		    (long long)value, listed, count > NAMED_MOST ? ", ..." : "", view);
}

int filter_check(const struct reader *whole, const struct filter *filter)
{
	int code = find_number(whole, "device", "devices", filter->device, -1, DEVICES);

	if (code == EXIT_DONE)
		code = find_number(whole, filter->device >= 0 ? "stream of this device" : "stream", "streams",
				   filter->stream, filter->device, WORKED("stream"));
	return code == EXIT_DONE ? find_number(whole, "thread", "threads", filter->thread, -1, THREADS) : code;
}

int filter_open(const struct reader *whole, const struct filter *filter, unsigned parts,
		const struct breakdown_capture *breakdown, struct filtered *ret)
{
	int error;

	if (filter->phases && !(filter->phases & breakdown_phases(breakdown)))
		return no_such_phase(filter->phases, breakdown_phases(breakdown));

	*ret = (struct filtered){.spans = need(calloc(1, sizeof *ret->spans))};
	ret->spans->thread = filter->thread;
	ret->spans->ranged = filter->range;
	ret->spans->phases = filter->phases;
	ret->spans->breakdown = breakdown;
	if (filter->range && !find_spans(whole, filter->range, ret->spans)) {
		filter_close(ret);
		return fail(EXIT_NO_TARGET,
			    "the capture has no range and no operator with the name %s; `profd show --by ranges` and "
			    "`--by operators` list them (* and ? stand for any characters)",
			    filter->range);
	}
	error = reader_clone(&ret->reader, whole);
	if (error) {
		filter_close(ret);
		return fail(EXIT_FAILED, "the capture cannot be opened once more: %s", strerror(-error));
	}
	if (sqlite3_create_function_v2(ret->reader.db, "in_part", 2,
				       SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, ret->spans, in_part, NULL,
				       NULL, NULL) != SQLITE_OK)
		report_damaged(&ret->reader);
	if (reader_meta_int(whole, "schema", 0) >= 2)
		make_device(&ret->reader, filter, parts);
	for (size_t i = 0; parts & FILTER_HOST && i < sizeof host_views / sizeof *host_views; i++)
		execute(&ret->reader, host_views[i]);
	return EXIT_DONE;
}

void filter_close(struct filtered *filtered)
{
	reader_close(&filtered->reader);
	free(filtered->spans ? filtered->spans->list : NULL);
	free(filtered->spans);
	*filtered = (struct filtered){0};
}
