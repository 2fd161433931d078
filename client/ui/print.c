/* print.c - a table as aligned text. Columns that do not fit are hidden or cut. */
#include "print.h"

#include "cells.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

/* Where the output is no terminal, only texts that are longer than this are cut. */
#define CELL_WIDTH_MAX 400
#define CELL_WIDTH_MIN 8
/* An elastic column gets this much before spare columns get anything. */
#define CELL_WIDTH_FAIR 26
/* A sentence is not wrapped into a column that is narrower than this: it runs over the edge. */
#define WRAP_WIDTH_MIN 24

static char *signed_duration(int64_t ns)
{
	char text[TEXT_FIGURE_BYTES], *figure = NULL;

	if (asprintf(&figure, "%s%s", ns > 0 ? "+" : "", text_duration(text, ns)) < 0)
		need(NULL);
	return figure;
}

/* A cell as people read it, to be freed. */
static char *figure(const struct cell *cell, enum column_kind kind)
{
	char text[TEXT_FIGURE_BYTES];

	switch (cell->type) {
	case CELL_EMPTY:
		return need(strdup("-"));
	case CELL_ABSENT:
		return need(strdup("not recorded"));
	case CELL_TEXT:
		return text_safe(cell->text);
	case CELL_REAL:
		snprintf(text, sizeof text,
			 kind == COLUMN_PERCENT	       ? "%.1f%%"
			 : kind == COLUMN_MORE_PERCENT ? "%+.1f%%"
			 : kind == COLUMN_RATE	       ? "%.2f GB/s"
						       : "%g",
			 cell->real);
		return need(strdup(text));
	case CELL_INTEGER:
		break;
	}
	switch (kind) {
	case COLUMN_DURATION:
		return need(strdup(text_duration(text, cell->integer)));
	case COLUMN_MORE:
		return signed_duration(cell->integer);
	case COLUMN_BYTES:
		return need(strdup(text_bytes(text, cell->integer)));
	case COLUMN_COUNT:
		return need(strdup(text_count(text, cell->integer)));
	case COLUMN_FLAG:
		return need(strdup(cell->integer ? "yes" : "no"));
	case COLUMN_TEXT:
	case COLUMN_NUMBER:
	case COLUMN_PERCENT:
	case COLUMN_MORE_PERCENT:
	case COLUMN_RATE:
	case COLUMN_LIST:
		break;
	}
	snprintf(text, sizeof text, "%lld", (long long)cell->integer);
	return need(strdup(text));
}

static bool left_aligned(enum column_kind kind)
{
	return kind == COLUMN_TEXT || kind == COLUMN_FLAG || kind == COLUMN_LIST;
}

/* Hides spare columns, the last one first, until each elastic column has the width that it wants, or a fair share of
 * it. */
static void spare(const struct table *table, bool *shown, const size_t *widths, size_t room)
{
	for (;;) {
		size_t total = 0, last = table->count;

		for (size_t c = 0; c < table->count; c++) {
			bool elastic = table->columns[c].flags & COLUMN_ELASTIC;

			if (!shown[c])
				continue;
			total += elastic && widths[c] > CELL_WIDTH_FAIR ? CELL_WIDTH_FAIR : widths[c];
			total += 2;
			if (table->columns[c].flags & COLUMN_SPARE)
				last = c;
		}
		if (total <= room + 2 || last == table->count)
			return;
		shown[last] = false;
	}
}

/* Takes columns from the widest elastic column, one at a time, until the table fits. */
static void squeeze(const struct table *table, const bool *shown, size_t *widths, size_t room)
{
	for (;;) {
		size_t total = 0, widest = table->count;

		for (size_t c = 0; c < table->count; c++) {
			if (!shown[c])
				continue;
			total += widths[c] + (total ? 2 : 0);
			if ((table->columns[c].flags & COLUMN_ELASTIC) && widths[c] > CELL_WIDTH_MIN &&
			    (widest == table->count || widths[c] > widths[widest]))
				widest = c;
		}
		if (total <= room || widest == table->count)
			return;
		widths[widest]--;
	}
}

static void pad(FILE *file, size_t n)
{
	for (size_t i = 0; i < n; i++)
		fputc(' ', file);
}

/* Prints a sentence from column `indent` on, broken at blanks where it would leave `room` columns. */
static void print_wrapped(FILE *file, const char *text, size_t indent, size_t room)
{
	size_t column = 0;

	while (*text) {
		size_t bytes = strcspn(text, " ");
		char *word = need(strndup(text, bytes));
		size_t width = text_width(word);

		if (column && column + 1 + width > room) {
			fputc('\n', file);
			pad(file, indent);
			column = 0;
		} else if (column) {
			fputc(' ', file);
			column++;
		}
		fputs(word, file);
		column += width;
		free(word);
		text += bytes;
		text += strspn(text, " ");
	}
}

static void print_cell(FILE *file, const char *text, size_t width, bool left, bool last)
{
	size_t own = text_width(text);
	size_t space = own < width ? width - own : 0;

	if (!left)
		pad(file, space);
	fputs(text, file);
	if (left && !last)
		pad(file, space);
	if (!last)
		fputs("  ", file);
}

void table_print(const struct table *table, const struct screen *screen, size_t limit)
{
	size_t rows = table_shown(table, limit);
	size_t *widths = need(calloc(table->count, sizeof *widths));
	bool *shown = need(calloc(table->count, sizeof *shown));
	char **texts = need(calloc(rows * table->count + 1, sizeof *texts));
	size_t last = 0, indent = 0;

	for (size_t c = 0; c < table->count; c++) {
		const struct column *column = &table->columns[c];
		bool used = !(column->flags & COLUMN_OPTIONAL);

		widths[c] = text_width(column->title);
		for (size_t r = 0; r < rows; r++) {
			const struct cell *cell = &table->cells[r * table->count + c];
			size_t width;

			texts[r * table->count + c] = figure(cell, column->kind);
			width = text_width(texts[r * table->count + c]);
			used = used || (cell->type != CELL_EMPTY && !(cell->type == CELL_TEXT && !cell->text[0]));
			if (width > CELL_WIDTH_MAX)
				width = CELL_WIDTH_MAX;
			if (width > widths[c])
				widths[c] = width;
		}
		shown[c] = used && !(column->flags & COLUMN_DATA_ONLY);
	}
	if (screen->width) {
		spare(table, shown, widths, screen->width);
		squeeze(table, shown, widths, screen->width);
	}

	for (size_t c = 0; c < table->count; c++)
		if (shown[c])
			last = c;
	for (size_t c = 0; c < last; c++)
		indent += shown[c] ? widths[c] + 2 : 0;

	fputs(screen_bold(screen), screen->file);
	for (size_t c = 0; c < table->count; c++)
		if (shown[c])
			print_cell(screen->file, table->columns[c].title, widths[c],
				   left_aligned(table->columns[c].kind), c == last);
	fprintf(screen->file, "%s\n", screen_plain(screen));
	for (size_t r = 0; r < rows; r++) {
		if (table->marked[r])
			fputs(screen_warn(screen), screen->file);
		for (size_t c = 0; c < table->count; c++) {
			char *cut;

			if (!shown[c])
				continue;
			if (c == last && (table->columns[c].flags & COLUMN_WRAP) &&
			    screen->width > indent + WRAP_WIDTH_MIN) {
				print_wrapped(screen->file, texts[r * table->count + c], indent,
					      screen->width - indent);
				continue;
			}
			cut = text_cut(texts[r * table->count + c], widths[c]);
			print_cell(screen->file, cut, widths[c], left_aligned(table->columns[c].kind), c == last);
			free(cut);
		}
		fprintf(screen->file, "%s\n", table->marked[r] ? screen_plain(screen) : "");
	}
	if (rows < table->rows || rows < table->whole)
		fprintf(screen->file, "%s... and %zu more%s\n", screen_dim(screen),
			(table->rows < table->whole ? table->whole : table->rows) - rows, screen_plain(screen));
	if (table->notes)
		fputs(table->notes, screen->file);

	for (size_t i = 0; i < rows * table->count; i++)
		free(texts[i]);
	free(texts);
	free(shown);
	free(widths);
}
