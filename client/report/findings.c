/* findings.c - the verdict as a table: a finding is a row (docs/findings.md). */
#include "query.h"
#include "verdict.h"

#include "store/findings_json.h"

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
	[F_LEAST] = {"min_percent", "LEAST", COLUMN_PERCENT, 0},
	[F_MOST] = {"max_percent", "MOST", COLUMN_PERCENT, 0},
	[F_WIN_NS] = {"win_ns", "WIN", COLUMN_DURATION, COLUMN_DATA_ONLY},
	[F_WIN] = {"win_percent", "AT MOST TO WIN", COLUMN_PERCENT, 0},
	[F_SUBJECT] = {"subject", "SUBJECT", COLUMN_TEXT, 0},
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

struct table *report_findings(const struct reader *reader, const struct report_options *options)
{
	struct table *table = table_new(columns, sizeof columns / sizeof *columns);
	struct breakdown_capture capture;
	struct findings findings;
	verdict_read(reader, options, &capture, &findings);
	for (size_t i = 0; i < findings.count; i++)
		add(table, i + 1, &findings.items[i]);
	if (*findings.abstains)
		table_note(table, "%s", findings.abstains);
	else if (!findings.count)
		table_note(table, "%s", findings.verdict);
	breakdown_capture_free(&capture);
	return table;
}
