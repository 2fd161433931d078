/* memory_calls.c - calls of CUDA, or of ROCm, that take memory or give it back, by step: a caching allocator should
 * avoid them. */
#include "query.h"
#include "recorded.h"
#include "views.h"

#include "proto/events.h"

#include <sqlite3.h>

enum { C_STEP, C_CALL, C_API };

static const struct column columns[] = {
	[C_STEP] = {"step", "STEP", COLUMN_NUMBER, 0},
	[C_CALL] = {"call", "CALL", COLUMN_TEXT, COLUMN_ELASTIC},
	[C_API] = {"api", "API", COLUMN_TEXT, COLUMN_SPARE},
	{"calls", "CALLS", COLUMN_COUNT, 0},
	{"failed", "FAILED", COLUMN_COUNT, COLUMN_OPTIONAL},
	{"retried", "RETRIED", COLUMN_COUNT, COLUMN_OPTIONAL},
	{"total_ns", "TOTAL", COLUMN_DURATION, 0},
	{"percent", "OF THE STEP", COLUMN_PERCENT, COLUMN_BARRED},
	{"average_ns", "AVG", COLUMN_DURATION, COLUMN_SPARE},
	{"max_ns", "MAX", COLUMN_DURATION, COLUMN_SPARE},
};

static void name_api(struct table *table, sqlite3_stmt *row)
{
	table_set_text(table, C_API, sqlite3_column_int64(row, C_API) == 1 ? "driver" : "runtime");
}

/* `told`: it is known which calls failed. domain 1 is the driver's. A call of the driver inside a call of the runtime
 * is the same call (`outer`: when the last call of the runtime before it ends). A failed call was retried if the same
 * thread makes it again in the same step: torch's allocator gives its cache back and tries again. The second call may
 * be outside of the part that is shown. */
#define SQL(told)                                                                                                                \
	"WITH few AS MATERIALIZED (SELECT a.rowid AS call, a.step AS step, a.thread AS thread, a.start AS start, a.duration AS " \
	"duration, a.domain AS domain, a.result <> 0 AS failed, s.text AS name FROM main.api_calls a JOIN strings s ON "         \
	"s.id = a.name WHERE a.name IN (SELECT id FROM strings WHERE text GLOB 'cudaMalloc*' OR text GLOB 'cudaFree*' OR "       \
	"text GLOB 'cudaHostAlloc*' OR text GLOB 'cuMemAlloc*' OR text GLOB 'cuMemFree*' OR text GLOB 'cuMemHostAlloc*' OR "     \
	"text GLOB '*MemCreate*' OR text GLOB '*MemRelease*' OR text GLOB '*MemMap*' OR text GLOB '*MemUnmap*' OR "              \
	"text GLOB 'hip*Malloc*' OR text GLOB 'hipFree*' OR text GLOB 'hipHost[FA]*' OR text GLOB 'hipMemAlloc*')), "            \
	"nested AS MATERIALIZED (SELECT *, max(iif(domain = 1, NULL, start + duration)) OVER (PARTITION BY thread "              \
	"ORDER BY start, duration DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS outer FROM few), "                   \
	"own AS MATERIALIZED (SELECT *, lead(1) OVER (PARTITION BY thread, step, name ORDER BY start) AS again FROM "            \
	"nested WHERE domain <> 1 OR outer IS NULL OR outer <= start), t AS (SELECT step, name, domain, count(*) AS "            \
	"calls, sum(failed) AS failed, total(failed AND again) AS retried, total(duration) AS total, max(duration) "             \
	"AS most FROM own WHERE call IN (SELECT rowid FROM api_calls) AND" REPORT_STEP                                           \
	"GROUP BY step, name, domain) SELECT t.step, t.name, t.domain, t.calls, "                                                \
	"iif(" told ", t.failed, NULL), iif(" told ", t.retried, NULL), min(t.total, 9e18), t.total * 100.0 / "                  \
	"nullif(s.duration, 0), min(t.total / t.calls, 9e18), t.most FROM t LEFT JOIN steps s ON s.step = t.step "               \
	"WHERE true"

struct table *report_memory_calls(const struct reader *reader, const struct report_options *options)
{
	static const struct report_shape shape = {
		COUNTED(columns), NULL, 0, "t.step, t.total DESC, t.name, t.domain", "cupti", name_api};
	bool own = report_used_cupti(reader);
	struct table *table = report_query(reader, options, &shape, own ? SQL("true") : SQL("false"));

	/* If both were refused, there is no table. */
	if (report_refused(reader, REPORT_RUNTIME) != report_refused(reader, REPORT_DRIVER))
		table_note(table, "  calls of the %s API were not recorded",
			   report_refused(reader, REPORT_RUNTIME) ? "runtime" : "driver");
	if (own && !(report_session_options(reader) & (SESSION_API_ALL | SESSION_API_MAPS)))
		table_note(table,
			   "  without calls that map memory (cuMemCreate, cuMemMap, ...: expandable segments), which "
			   "`profd trigger --api all` records");
	if (!own)
		table_note(table, "  the trace does not tell which calls failed");
	return table;
}
