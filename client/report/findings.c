/* findings.c - the verdict as a table: a finding is a row (docs/findings.md). */
#include "query.h"
#include "verdict.h"

#include "client/ui/failure.h"

#include "store/findings/places.h"

#include <stdlib.h>

enum {
	F_NUMBER,
	F_FINDING,
	F_WHAT,
	F_DEVICE,
	F_STEP,
	F_SHARE,
	F_LEAST,
	F_MOST,
	F_WIN_NS,
	F_WIN,
	F_SUBJECT,
	F_EVIDENCE,
	F_TRY
};

static const struct column columns[] = {
	[F_NUMBER] = {"number", "NUMBER", COLUMN_NUMBER, 0},
	[F_FINDING] = {"finding", "FINDING", COLUMN_TEXT, 0},
	[F_WHAT] = {"what", "WHAT", COLUMN_TEXT, COLUMN_DATA_ONLY},
	[F_DEVICE] = {"device", "DEVICE", COLUMN_NUMBER, COLUMN_DATA_ONLY},
	[F_STEP] = {"ns", "A STEP", COLUMN_DURATION, 0},
	[F_SHARE] = {"percent", "SHARE", COLUMN_PERCENT, 0},
	[F_LEAST] = {"min_percent", "LEAST", COLUMN_PERCENT, COLUMN_SPARE},
	[F_MOST] = {"max_percent", "MOST", COLUMN_PERCENT, COLUMN_SPARE},
	[F_WIN_NS] = {"win_ns", "WIN", COLUMN_DURATION, COLUMN_DATA_ONLY},
	[F_WIN] = {"win_percent", "AT MOST TO WIN", COLUMN_PERCENT, 0},
	[F_SUBJECT] = {"subject", "SUBJECT", COLUMN_TEXT, COLUMN_NAME},
	[F_EVIDENCE] = {"evidence", "EVIDENCE", COLUMN_TEXT, COLUMN_DATA_ONLY},
	[F_TRY] = {"try", "TRY", COLUMN_TEXT, COLUMN_DATA_ONLY},
};

static void add(struct table *table, size_t number, const struct finding *finding)
{
	table_add(table);
	table_set(table, F_NUMBER, (int64_t)number);
	table_set_text(table, F_FINDING, finding_facts(finding->kind)->word);
	table_set_text(table, F_WHAT, finding->what);
	if (finding->device >= 0)
		table_set(table, F_DEVICE, finding->device);
	table_set(table, F_STEP, finding->ns);
	table_set_real(table, F_SHARE, finding->share * 100);
	table_set_real(table, F_LEAST, finding->least * 100);
	table_set_real(table, F_MOST, finding->most * 100);
	table_set(table, F_WIN_NS, finding->win_ns);
	table_set_real(table, F_WIN, finding->win * 100);
	table_set_text(table, F_SUBJECT, *finding->subject ? finding->subject : NULL);
	table_set_text(table, F_EVIDENCE, finding->evidence);
	table_set_text(table, F_TRY, finding->advice);
}

/* --- --finding N: its intervals --- */

enum { V_STEP, V_START, V_END, V_LENGTH, V_THREAD, V_NAME, V_OPERATOR, V_WHERE, V_FILE, V_LINE, V_FUNCTION, V_MODULE };

static const struct column interval_columns[] = {
	[V_STEP] = {"step", "STEP", COLUMN_NUMBER, 0},
	[V_START] = {"start_ns", "START", COLUMN_DURATION, 0},
	[V_END] = {"end_ns", "END", COLUMN_DURATION, COLUMN_DATA_ONLY},
	[V_LENGTH] = {"duration_ns", "FOR", COLUMN_DURATION, 0},
	[V_THREAD] = {"thread", "THREAD", COLUMN_NUMBER, 0},
	[V_NAME] = {"name", "IN", COLUMN_TEXT, COLUMN_ELASTIC | COLUMN_OPTIONAL},
	[V_OPERATOR] = {"operator", "OF", COLUMN_TEXT, COLUMN_ELASTIC | COLUMN_OPTIONAL},
	[V_WHERE] = {"where", "LINE", COLUMN_TEXT, COLUMN_TABLE_ONLY | COLUMN_OPTIONAL},
	[V_FILE] = {"file", "FILE", COLUMN_TEXT, COLUMN_DATA_ONLY},
	[V_LINE] = {"line", "LINE", COLUMN_NUMBER, COLUMN_DATA_ONLY},
	[V_FUNCTION] = {"function", "FUNCTION", COLUMN_TEXT, COLUMN_DATA_ONLY},
	[V_MODULE] = {"module", "MODULE", COLUMN_TEXT, COLUMN_ELASTIC | COLUMN_OPTIONAL},
};

static void set_name(struct table *table, size_t column, const struct reader *reader, int64_t id)
{
	sqlite3_stmt *statement;

	if (!id)
		return;
	statement = report_prepare(reader, "SELECT text FROM strings WHERE id = ?1");
	sqlite3_bind_int64(statement, 1, id);
	while (report_next(reader, statement))
		report_cell(table, column, statement, 0);
}

static void set_place(struct table *table, const struct reader *reader, const struct place *place)
{
	char text[REPORT_LINE_BYTES];
	sqlite3_stmt *statement = report_prepare(reader, "SELECT text, ?2 FROM strings WHERE id = ?1");

	sqlite3_bind_int64(statement, 1, place->file);
	sqlite3_bind_int64(statement, 2, place->line);
	while (report_next(reader, statement))
		if (report_line(text, statement, 0, 1))
			table_set_text(table, V_WHERE, text);
	set_name(table, V_FILE, reader, place->file);
	if (place->line)
		table_set(table, V_LINE, place->line);
	set_name(table, V_FUNCTION, reader, place->function);
	table_set_text(table, V_MODULE, place->module);
}

static struct table *intervals(const struct reader *reader, const struct findings *findings, size_t number)
{
	const struct finding *finding = &findings->items[number - 1];
	struct places places;
	struct table *table = table_new(interval_columns, sizeof interval_columns / sizeof *interval_columns);

	places_find(reader->db, findings, &places);
	for (size_t i = 0; i < finding->interval_count; i++) {
		const struct finding_interval *interval = &finding->intervals[i];

		table_add(table);
		table_set(table, V_STEP, interval->step);
		table_set(table, V_START, interval->start);
		table_set(table, V_END, interval->end);
		table_set(table, V_LENGTH, interval->end - interval->start);
		if (interval->thread)
			table_set(table, V_THREAD, interval->thread);
		set_name(table, V_NAME, reader, interval->name);
		set_name(table, V_OPERATOR, reader, interval->outer);
		set_place(table, reader, &places.of[number - 1][i]);
	}
	places_free(&places);
	table_set_whole(table, (size_t)finding->interval_total);
	table_note(table, "%s: %.1f %%%s", finding->what, finding->share * 100,
		   finding->step ? " of all the time" : findings_of(findings));
	table_note(table, "%s", finding->evidence);
	table_note(table, "%s", finding->advice);
	if (*finding->sql)
		table_note(table, "SQL that lists the records behind it: %s", finding->sql);
	return table;
}

struct table *report_findings(const struct reader *reader, const struct report_options *options)
{
	struct table *table;
	struct findings findings;
	verdict_read(reader, options, &findings);
	if (options->finding) {
		if ((uint64_t)options->finding > findings.count)
			exit(fail(EXIT_NO_TARGET, "there is no finding %lld; the verdict has %zu: %s",
				  (long long)options->finding, findings.count, findings.verdict));
		return intervals(reader, &findings, (size_t)options->finding);
	}
	table = table_new(columns, sizeof columns / sizeof *columns);
	for (size_t i = 0; i < findings.count; i++)
		add(table, i + 1, &findings.items[i]);
	for (size_t i = 0; i < findings.count; i++) {
		const struct finding *finding = &findings.items[i];
		table_note(table, "%zu  %s. %s%s%s", i + 1, finding->what, finding->evidence,
			   *finding->evidence ? " " : "", finding->advice);
	}
	if (*findings.abstains)
		table_note(table, "%s", findings.abstains);
	else if (!findings.count)
		table_note(table, "%s", findings.verdict);
	return table;
}
