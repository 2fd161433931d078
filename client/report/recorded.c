/* recorded.c - see recorded.h. */
#include "recorded.h"

#include "client/ui/text.h"
#include "query.h"

#include "proto/limits.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

bool report_ran(const struct reader *reader, const char *collector)
{
	sqlite3_stmt *statement = report_prepare(reader, "SELECT ran FROM collectors WHERE collector = ?1");
	bool ran = false;

	sqlite3_bind_text(statement, 1, collector, -1, SQLITE_STATIC);
	while (report_next(reader, statement))
		ran = sqlite3_column_int(statement, 0) != 0;
	return ran;
}

bool report_device_ran(const struct reader *reader, const char *collector)
{
	return reader_meta_int(reader, "schema", 0) >= 2 && report_ran(reader, collector);
}

/* Nobody asked for the host's side (--activities gpu): then there may only be profd's own ranges, which come with the
 * steps. */
static bool host_left_out(const struct reader *reader)
{
	return !reader_count(reader, "SELECT count(*) FROM collectors WHERE collector IN ('nvtx', 'torch') AND wanted",
			     1) &&
	       !reader_count(reader, "SELECT count(*) FROM range_totals", 0);
}

/* torch's list of compilations is read after the recording. It is lost if the process ends before. */
static bool list_is_gone(const struct reader *reader)
{
	return report_ran(reader, "compile") &&
	       reader_count(reader,
			    "SELECT 1 FROM meta WHERE key = 'reason_code' AND value IN ('exit', 'died') AND NOT EXISTS "
			    "(SELECT 1 FROM compile_events)",
			    0);
}

bool report_filled(const struct reader *reader, unsigned figures)
{
	uint32_t collectors = collectors_filling(figures);
	bool ran = false;

	if (figures & FILLS_RANGES && host_left_out(reader))
		collectors = collectors_filling(figures & ~(unsigned)FILLS_RANGES);
	for (unsigned bit = 0; bit < COLLECTOR_COUNT && !ran; bit++)
		ran = collectors >> bit & 1 && report_ran(reader, collector_word(bit));
	if (ran && figures & FILLS_COMPILES && list_is_gone(reader))
		return false;
	/* Files of schema 1 lack the tables of the device. */
	return ran && (!(figures & (FILLS_DEVICE | FILLS_MEMORY)) || reader_meta_int(reader, "schema", 0) >= 2);
}

char *report_unfilled(const struct reader *reader, unsigned figures)
{
	uint32_t collectors = collectors_filling(figures);
	unsigned bit = 0;

	if (figures & FILLS_COMPILES && list_is_gone(reader))
		return need(strdup("the process ended before torch's list of compilations was read"));
	/* Steps are always asked for: their sentence explains nothing. */
	if (collectors != 1u << COLLECTOR_STEPS)
		collectors &= ~(1u << COLLECTOR_STEPS);
	while (bit < COLLECTOR_COUNT && !(collectors >> bit & 1))
		bit++;
	return report_sentence(reader, bit < COLLECTOR_COUNT ? collector_word(bit) : "");
}

bool report_gpu(const struct reader *reader)
{
	return report_filled(reader, FILLS_DEVICE);
}

bool report_simulated(const struct reader *reader)
{
	return reader_meta_int(reader, "simulated", 0) ||
	       (report_gpu(reader) && reader_count(reader,
						   "SELECT count(*) FROM devices d JOIN strings s ON s.id = d.name "
						   "WHERE s.text GLOB '" SIMULATED_DEVICE "*'",
						   0) > 0);
}

int64_t report_session_options(const struct reader *reader)
{
	return report_gpu(reader) ? reader_count(reader, "SELECT options FROM sessions ORDER BY rowid DESC", 0) : 0;
}

bool report_refused(const struct reader *reader, int64_t kinds)
{
	if (!kinds || !report_gpu(reader) || reader_meta_int(reader, "schema", 0) < 3)
		return false;
	int64_t missing = reader_count(reader, "SELECT refused FROM sessions ORDER BY rowid DESC", 0) |
			  reader_meta_int(reader, "absent_kinds", 0);
	return (missing & kinds) == kinds;
}

bool report_attributed(const struct reader *reader)
{
	return report_gpu(reader) && !report_refused(reader, REPORT_CALLS);
}

bool report_used_cupti(const struct reader *reader)
{
	return report_gpu(reader) && reader_count(reader, "SELECT count(*) FROM sessions", 0) > 0;
}

bool report_tells_blocks(const struct reader *reader)
{
	sqlite3_stmt *statement;
	bool tells = true;

	/* Files before schema 4 lack the table. */
	if (!report_filled(reader, FILLS_ALLOCATIONS))
		return false;
	statement = report_prepare(reader, "SELECT 1 FROM framework_allocations WHERE address = 0 LIMIT 1");
	while (report_next(reader, statement))
		tells = false;
	return tells;
}

char *report_sentence(const struct reader *reader, const char *collector)
{
	sqlite3_stmt *statement = report_prepare(reader, "SELECT sentence FROM collectors WHERE collector = ?1");
	char *sentence = NULL;

	sqlite3_bind_text(statement, 1, collector, -1, SQLITE_STATIC);
	while (report_next(reader, statement)) {
		const char *text = (const char *)sqlite3_column_text(statement, 0);

		free(sentence);
		sentence = need(strdup(text ? text : ""));
	}
	return sentence ? sentence : need(strdup(""));
}

int64_t report_step(const struct reader *reader, int64_t wanted)
{
	sqlite3_stmt *statement = report_prepare(
		reader, "SELECT step FROM steps WHERE step = ?1 OR number = ?1 ORDER BY step = ?1 DESC LIMIT 1");
	int64_t step = 0;

	sqlite3_bind_int64(statement, 1, wanted);
	while (report_next(reader, statement))
		step = sqlite3_column_int64(statement, 0);
	return step;
}

void report_step_numbers(const struct reader *reader, int64_t *ret_first, int64_t *ret_last)
{
	*ret_first = reader_count(reader, "SELECT min(number) FROM steps WHERE source IS NOT 5", -1);
	*ret_last = reader_count(reader, "SELECT max(number) FROM steps WHERE source IS NOT 5", -1);
	_Static_assert(STEP_SOURCE_DURATION == 5, "as the statements have it");
}

int64_t report_step_count(const struct reader *reader)
{
	return reader_count(reader, "SELECT count(*) FROM steps WHERE rowid > -1", 0);
}

bool report_has_table(const struct reader *reader, const char *table)
{
	return sqlite3_table_column_metadata(reader->db, "main", table, NULL, NULL, NULL, NULL, NULL, NULL) ==
	       SQLITE_OK;
}

bool report_looked(const struct reader *reader)
{
	sqlite3_stmt *statement;
	bool looked = false;

	if (!report_has_table(reader, "thread_times") || !report_has_table(reader, "workers"))
		return false;
	statement = report_prepare(reader, "SELECT coalesce(max(children), 0) FROM thread_times");
	while (report_next(reader, statement))
		looked = sqlite3_column_int(statement, 0) != 0;
	return looked;
}

bool report_evaluates(const struct reader *reader)
{
	return report_has_table(reader, "breakdown") &&
	       reader_count(reader, "SELECT count(*) FROM (" REPORT_EVALUATIONS ")", 0) > 0;
}

bool report_compiles_in_steps(const struct reader *reader)
{
	return report_has_table(reader, "breakdown") &&
	       reader_count(reader, "SELECT count(*) FROM (" REPORT_COMPILATIONS ")", 0) > 0;
}

bool report_collects_in_steps(const struct reader *reader)
{
	return report_has_table(reader, "breakdown") &&
	       reader_count(reader, "SELECT count(*) FROM (" REPORT_COLLECTIONS ")", 0) > 0;
}
