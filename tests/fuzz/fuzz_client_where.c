/* fuzz_client_where.c - --where: a condition is refused with a sentence, or it keeps some rows, and its contrary keeps all others. The
 * input: the condition, and after a NUL the texts of the rows, each ended by a NUL. */
#include "client/ui/where.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 6

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const struct column columns[] = {
	{"name", "NAME", COLUMN_TEXT, COLUMN_NAME}, {"pid", "PID", COLUMN_NUMBER, 0},
	{"calls", "CALLS", COLUMN_COUNT, 0},	    {"total_ns", "TOTAL", COLUMN_DURATION, 0},
	{"peak_bytes", "PEAK", COLUMN_BYTES, 0},    {"percent", "%", COLUMN_PERCENT, 0},
	{"absolute", "OF ALL", COLUMN_FLAG, 0},	    {"rate_gb_s", "RATE", COLUMN_RATE, 0},
	{"ranks", "RANKS", COLUMN_LIST, 0},
};

static struct table *make(const char *texts, const char *end)
{
	static const int64_t figures[ROWS] = {0, 1, -1, 20000, INT64_MAX, INT64_MIN};
	struct table *table = table_new(COUNTED(columns));
	for (size_t row = 0; row < ROWS; row++) {
		table_add(table);
		if (texts < end)
			table_set_text(table, 0, texts);
		texts += texts < end ? strlen(texts) + 1 : 0;
		/* Cells without a value, too. */
		for (size_t column = 1; column < sizeof columns / sizeof *columns; column++)
			if (columns[column].kind == COLUMN_LIST)
				table_set_text(table, column, row & 1 ? "0,1" : NULL);
			else if (columns[column].kind == COLUMN_PERCENT || columns[column].kind == COLUMN_RATE)
				table_set_real(table, column, (double)figures[row] / 3);
			else if (column != row)
				table_set(table, column, figures[row]);
	}
	return table;
}

/* How many rows it keeps; ROWS + 1: it does not suit the table. */
static size_t keep(const char *condition, const char *texts, const char *end)
{
	char why[400] = "";
	struct where *where = where_read(condition, why, sizeof why);
	if (!where) {
		if (!*why)
			abort();
		return ROWS + 1;
	}
	struct table *table = make(texts, end);
	bool suits = where_keep(where, table, why, sizeof why);
	size_t rows = table_rows(table);
	if (suits ? rows > ROWS : rows != ROWS || !*why)
		abort();
	table_free(table);
	where_free(where);
	return suits ? rows : ROWS + 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	char *text = malloc(n + 2), *contrary;
	if (!text)
		abort();
	memcpy(text, data, n);
	text[n] = text[n + 1] = 0;
	const char *texts = text + strlen(text) + 1, *end = text + n;
	size_t rows = keep(text, texts, end);
	if (asprintf(&contrary, "not (%s)", text) < 0)
		abort();
	if (rows <= ROWS) {
		size_t others = keep(contrary, texts, end);
		/* One nested as deeply as may be is too deep with a bracket more. */
		if (others <= ROWS && rows + others != ROWS)
			abort();
	}
	free(contrary);
	free(text);
	return 0;
}
