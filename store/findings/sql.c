/* sql.c - see sql.h. The SQL runs on the capture file as it is; times are ns since the capture's base. */
#include "sql.h"

#include <stdio.h>
#include <string.h>

#define NAMED(table, columns)                                                                                          \
	"SELECT r.step, r.start, r.duration, " columns "s.text FROM " table                                            \
	" r JOIN strings s ON s.id = r.name WHERE r.step "                                                             \
	"BETWEEN %lld AND %lld "
/* NULL: not known. */
#define KNOWN(column) "iif(collections_known, " column ", NULL) AS " column
#define CALLS(names) NAMED("api_calls", "r.thread, ") "AND (" names ") ORDER BY r.duration DESC"

static const char *const queries[FINDING_KINDS] = {
	[FINDING_LAUNCH] =
		"SELECT k.step, a.start AS launched, a.duration AS launch, k.start, k.duration, s.text FROM kernels k "
		"JOIN strings s ON s.id = k.name LEFT JOIN api_calls a ON a.rowid = k.api WHERE k.step BETWEEN %lld "
		"AND %lld ORDER BY k.start",
	[FINDING_SMALL] =
		"SELECT s.text, count(*) AS calls, sum(k.duration) AS total, avg(k.duration) AS average FROM kernels k JOIN "
		"strings s ON s.id = k.name WHERE k.step BETWEEN %lld AND %lld GROUP BY s.text ORDER BY calls DESC",
	[FINDING_SYNC] = CALLS("s.text GLOB '*Synchronize*' OR s.text GLOB '*Memcpy*'"),
	[FINDING_COPY] =
		"SELECT step, start, duration, bytes, kind, source_kind, target_kind, asynchronous FROM copies WHERE step "
		"BETWEEN %lld AND %lld AND (source_kind = 1 OR target_kind = 1 OR NOT asynchronous) ORDER BY start",
	[FINDING_COPIES] =
		"SELECT step, start, duration, bytes, kind, stream FROM copies WHERE step BETWEEN %lld AND %lld ORDER BY start",
	[FINDING_COMMUNICATION] =
		"SELECT k.step, k.start, k.duration, k.stream, s.text FROM kernels k JOIN strings s ON s.id = k.name "
		"WHERE k.step BETWEEN %lld AND %lld AND (s.text LIKE '%%nccl%%' OR s.text LIKE '%%rccl%%' OR s.text LIKE '%%all_reduce%%' OR "
		"s.text LIKE '%%nvshmem%%') ORDER BY k.start",
	[FINDING_ALLOC] = CALLS(
		"s.text GLOB '*Malloc*' OR s.text GLOB '*Free*' OR s.text GLOB '*Alloc*' OR s.text GLOB 'cuMem[A-Z]*' OR "
		"s.text GLOB 'hipMem[A-Z]*' OR s.text GLOB '*Host*egister*'"),
	[FINDING_COMPILE] = CALLS(
		"s.text GLOB '*ModuleLoad*' OR s.text GLOB '*LibraryLoad*' OR s.text GLOB '*Link*' OR s.text GLOB "
		"'*GraphInstantiate*' OR s.text GLOB '*rtcCompile*'"),
	[FINDING_RECOMPILE] =
		"SELECT c.step, c.start, c.duration, f.text AS function, p.text AS file, c.line, r.text AS reason FROM compile_events c "
		"LEFT JOIN strings f ON f.id = c.function LEFT JOIN strings p ON p.id = c.file LEFT JOIN strings r ON r.id = "
		"c.reason WHERE c.step BETWEEN %lld AND %lld ORDER BY c.start",
	[FINDING_GARBAGE] =
		"SELECT step, start, duration, error, end_error, thread, generation, collections, collected FROM garbage_collections WHERE step BETWEEN "
		"%lld AND %lld ORDER BY start",
	[FINDING_SETUP] = NAMED("api_calls", "r.thread, ") "ORDER BY r.duration DESC LIMIT 100",
	[FINDING_NO_TENSOR_CORES] =
		"SELECT s.text, count(*) AS calls, sum(k.duration) AS total FROM kernels k JOIN strings s ON "
		"s.id = k.name WHERE k.step BETWEEN %lld AND %lld AND (s.text LIKE '%%gemm%%' OR s.text LIKE "
		"'%%cudnn%%' OR s.text LIKE '%%grad%%engine%%') GROUP BY s.text ORDER BY total DESC",
	[FINDING_FEW_BLOCKS] =
		"SELECT s.text, k.grid_x * k.grid_y * k.grid_z AS blocks, count(*) AS calls, sum(k.duration) AS total FROM kernels k JOIN "
		"strings s ON s.id = k.name WHERE k.step BETWEEN %lld AND %lld AND blocks * 2 <= (SELECT multiprocessors FROM devices d "
		"WHERE d.id = k.device) GROUP BY s.text, blocks ORDER BY total DESC",
	[FINDING_PROCESSOR] =
		"SELECT s.step, t.time, t.cpu, t.waited, t.voluntary, t.involuntary FROM thread_times t JOIN steps s ON s.thread = t.thread "
		"AND t.time BETWEEN s.start AND s.start + s.duration WHERE s.step BETWEEN %lld AND %lld ORDER BY t.time",
	[FINDING_UNLIKE] =
		"SELECT step, number, start, duration FROM steps WHERE step BETWEEN %lld AND %lld ORDER BY duration DESC",
	[FINDING_CAPTURE] =
		"SELECT step, start, duration, thread, kind FROM overheads WHERE step BETWEEN %lld AND %lld ORDER BY start",
	[FINDING_OUTSIDE] =
		"SELECT step, count(*) AS operators, sum(self) AS in_operators FROM operators WHERE step BETWEEN %lld AND "
		"%lld GROUP BY step",
	[FINDING_OPTIMIZER] = NAMED("operators", "r.thread, ") "AND s.text LIKE 'aten::%%' ORDER BY r.start",
};

/* Lists the records that mark input, by the ids of their names: operators or ranges. */
static void tell_input(const struct texts *texts, long long first, long long last, struct finding *finding)
{
	char ids[TEXTS_IDS * 24] = "";
	size_t n = 0;
	for (size_t i = 0; i < texts->input_count; i++)
		n += (size_t)snprintf(ids + n, sizeof ids - n, "%s%lld", i ? ", " : "", (long long)texts->input[i]);
	snprintf(
		finding->sql, sizeof finding->sql,
		"SELECT r.step, r.start, r.duration, r.thread, s.text FROM (SELECT step, start, duration, thread, name FROM operators "
		"UNION ALL SELECT step, start, duration, thread, name FROM ranges) r JOIN strings s ON s.id = r.name WHERE r.name IN "
		"(%s) AND r.step BETWEEN %lld AND %lld ORDER BY r.start",
		ids, first, last);
}

/* Lists what the thread did in the longest of the stretches. */
static void tell_stall(struct finding *finding)
{
	const struct finding_interval *longest = &finding->intervals[0];
	for (size_t i = 1; i < finding->interval_count; i++)
		if (finding->intervals[i].end - finding->intervals[i].start > longest->end - longest->start)
			longest = &finding->intervals[i];
	snprintf(
		finding->sql, sizeof finding->sql,
		"SELECT r.step, r.start, r.duration, s.text FROM operators r JOIN strings s ON s.id = r.name WHERE r.thread = %lld AND "
		"r.start < %lld AND r.start + r.duration > %lld ORDER BY r.start",
		(long long)longest->thread, (long long)longest->end + 1000000, (long long)longest->start - 1000000);
}

void findings_tell_sql(const struct texts *texts, const struct findings *findings, struct finding *finding)
{
	long long first = (long long)findings->first + 1, last = (long long)findings->last;
	if (finding->kind == FINDING_INPUT)
		tell_input(texts, first, last, finding);
	else if (finding->kind == FINDING_STALL && finding->interval_count)
		tell_stall(finding);
	else if (finding->collections)
		snprintf(
			finding->sql, sizeof finding->sql,
			"SELECT step, number, start, duration, " KNOWN("collections_0") ", " KNOWN("collections_1") ", " KNOWN(
				"collections_2") ", " KNOWN("collected") " FROM steps WHERE step BETWEEN %lld AND %lld ORDER BY duration DESC",
			first, last);
	else if (queries[finding->kind])
		snprintf(finding->sql, sizeof finding->sql, queries[finding->kind], first, last);
}
