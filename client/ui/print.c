/* print.c - a table as aligned text. Columns that do not fit are hidden or cut. */
#include "print.h"

#include "cells.h"
#include "name.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

#define CELL_WIDTH_MIN 8
/* An elastic column gets this much before spare columns get anything. A name gets what it needs without its namespaces, up to
 * this much. */
#define CELL_WIDTH_FAIR 26
#define NAME_WIDTH_FAIR 56
/* Cells of a bar that stands for all of something. */
#define BAR 10
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

	/* Two digits of a GB would leave nothing of it. */
	if (cell->type == CELL_REAL && kind == COLUMN_RATE && cell->real > 0 && cell->real < 0.01) {
		snprintf(text, sizeof text, "%.2f MB/s", cell->real * 1e3);
		return need(strdup(text));
	}
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
			 : kind == COLUMN_SPEED	       ? "%.2f GFLOP/s"
			 : kind == COLUMN_RATIO	       ? "%.2f"
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
	case COLUMN_SPEED:
	case COLUMN_RATIO:
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

/* How a table is laid out. Arrays have an entry a column, `texts` one a cell. */
struct layout {
	const struct table *table;
	size_t rows;
	bool *shown;
	size_t *widths;
	size_t *fair;  /* what an elastic column gets before spare columns get anything */
	size_t barred; /* the column that bars stand behind; the count: none */
	char **texts;
};

static size_t total_width(const struct layout *layout)
{
	size_t total = 0;

	for (size_t c = 0; c < layout->table->count; c++)
		if (layout->shown[c])
			total += layout->widths[c] + (total ? 2 : 0);
	return total;
}

/* Hides spare columns, the last one first, until each elastic column has the width that it wants, or a fair share of
 * it. */
static void spare(struct layout *layout, size_t room)
{
	const struct table *table = layout->table;

	for (;;) {
		size_t total = 0, last = table->count;

		for (size_t c = 0; c < table->count; c++) {
			bool elastic = table->columns[c].flags & (COLUMN_ELASTIC | COLUMN_NAME);

			if (!layout->shown[c])
				continue;
			total += elastic && layout->widths[c] > layout->fair[c] ? layout->fair[c] : layout->widths[c];
			total += 2;
			if (table->columns[c].flags & COLUMN_SPARE)
				last = c;
		}
		if (total <= room + 2 || last == table->count)
			return;
		layout->shown[last] = false;
	}
}

/* Takes columns from the widest elastic column, one at a time, until the table fits. */
static void squeeze(struct layout *layout, size_t room)
{
	const struct table *table = layout->table;

	while (total_width(layout) > room) {
		size_t widest = table->count;

		for (size_t c = 0; c < table->count; c++)
			if (layout->shown[c] && (table->columns[c].flags & (COLUMN_ELASTIC | COLUMN_NAME)) &&
			    layout->widths[c] > CELL_WIDTH_MIN &&
			    (widest == table->count || layout->widths[c] > layout->widths[widest]))
				widest = c;
		if (widest == table->count)
			return;
		layout->widths[widest]--;
	}
}

/* Texts of elastic columns get the width that there is, and their columns the width that is left of them. */
static void fit_texts(struct layout *layout)
{
	const struct table *table = layout->table;
	char **column = need(calloc(layout->rows + 1, sizeof *column));

	for (size_t c = 0; c < table->count; c++) {
		size_t widest = text_width(table->columns[c].title);

		if (!layout->shown[c] || !(table->columns[c].flags & (COLUMN_ELASTIC | COLUMN_NAME)))
			continue;
		for (size_t r = 0; r < layout->rows; r++)
			column[r] = layout->texts[r * table->count + c];
		names_fit(column, layout->rows, layout->widths[c], table->columns[c].flags & COLUMN_NAME);
		for (size_t r = 0; r < layout->rows; r++) {
			size_t width = text_width(column[r]);

			layout->texts[r * table->count + c] = column[r];
			widest = width > widest ? width : widest;
		}
		layout->widths[c] = widest < layout->widths[c] ? widest : layout->widths[c];
	}
	free(column);
}

/* Where there is room for it, the first share that wants one gets a bar. */
static void find_bars(struct layout *layout, const struct screen *screen)
{
	const struct table *table = layout->table;

	layout->barred = table->count;
	if (!screen->terminal || (screen->width && total_width(layout) + 2 + BAR > screen->width))
		return;
	for (size_t c = table->count; c-- > 0;)
		if (layout->shown[c] && table->columns[c].flags & COLUMN_BARRED)
			layout->barred = c;
}

static void measure_name(struct layout *layout, size_t c, size_t r)
{
	char *name = name_form(layout->texts[r * layout->table->count + c], NAME_LOCAL);
	size_t width = text_width(name);

	width = width < NAME_WIDTH_FAIR ? width : NAME_WIDTH_FAIR;
	if (width > layout->fair[c])
		layout->fair[c] = width;
	free(name);
}

static void measure(struct layout *layout)
{
	const struct table *table = layout->table;

	for (size_t c = 0; c < table->count; c++) {
		const struct column *column = &table->columns[c];
		bool used = !(column->flags & COLUMN_OPTIONAL);

		layout->widths[c] = text_width(column->title);
		layout->fair[c] = column->flags & COLUMN_NAME ? layout->widths[c] : CELL_WIDTH_FAIR;
		for (size_t r = 0; r < layout->rows; r++) {
			const struct cell *cell = &table->cells[r * table->count + c];
			size_t width;

			layout->texts[r * table->count + c] = figure(cell, column->kind);
			width = text_width(layout->texts[r * table->count + c]);
			used = used || (cell->type != CELL_EMPTY && !(cell->type == CELL_TEXT && !cell->text[0]));
			if (width > layout->widths[c])
				layout->widths[c] = width;
			if (column->flags & COLUMN_NAME && layout->fair[c] < NAME_WIDTH_FAIR)
				measure_name(layout, c, r);
		}
		layout->shown[c] = used && !(column->flags & COLUMN_DATA_ONLY);
	}
}

static void pad(FILE *file, size_t n)
{
	for (size_t i = 0; i < n; i++)
		fputc(' ', file);
}

void print_wrapped(FILE *file, const char *text, size_t indent, size_t room, size_t begun)
{
	size_t column = begun;
	bool first = true;

	while (*text) {
		size_t bytes = strcspn(text, " ");
		char *word = need(strndup(text, bytes));
		size_t width = text_width(word);

		if (column && column + 1 + width > room) {
			fputc('\n', file);
			pad(file, indent);
			column = 0;
		} else if (column && !first) {
			fputc(' ', file);
			column++;
		}
		first = false;
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

static void print_bar(const struct layout *layout, const struct screen *screen, size_t r, bool last)
{
	const struct cell *cell = &layout->table->cells[r * layout->table->count + layout->barred];
	char bar[SCREEN_BAR_BYTES];
	unsigned cells = screen_bar(screen, bar, cell->type == CELL_REAL ? cell->real : 0, BAR);

	fputs(bar, screen->file);
	if (!last)
		pad(screen->file, BAR + 1 - cells);
}

static void print_head(const struct layout *layout, const struct screen *screen, size_t last)
{
	const struct column *columns = layout->table->columns;

	fputs(screen_bold(screen), screen->file);
	for (size_t c = 0; c < layout->table->count; c++) {
		if (!layout->shown[c])
			continue;
		print_cell(screen->file, columns[c].title, layout->widths[c], left_aligned(columns[c].kind), c == last);
		if (c == layout->barred && c != last)
			pad(screen->file, BAR + 1);
	}
	fprintf(screen->file, "%s\n", screen_plain(screen));
}

static void print_row(const struct layout *layout, const struct screen *screen, size_t r, size_t last, size_t indent)
{
	const struct table *table = layout->table;

	if (table->marked[r])
		fputs(screen_warn(screen), screen->file);
	for (size_t c = 0; c < table->count; c++) {
		const char *text = layout->texts[r * table->count + c];
		bool bar = c == layout->barred;

		if (!layout->shown[c])
			continue;
		if (c == last && (table->columns[c].flags & COLUMN_WRAP) && screen->width > indent + WRAP_WIDTH_MIN) {
			print_wrapped(screen->file, text, indent, screen->width - indent, 0);
			continue;
		}
		print_cell(screen->file, text, layout->widths[c], left_aligned(table->columns[c].kind),
			   c == last && !bar);
		if (bar)
			print_bar(layout, screen, r, c == last);
	}
	fprintf(screen->file, "%s\n", table->marked[r] ? screen_plain(screen) : "");
}

void print_notes(const char *notes, const struct screen *screen)
{
	while (*notes) {
		size_t bytes = strcspn(notes, "\n"), indent = strspn(notes, " ");
		char *line = need(strndup(notes + indent, bytes - indent));

		pad(screen->file, indent);
		print_wrapped(screen->file, line, indent,
			      screen->width > indent + WRAP_WIDTH_MIN ? screen->width - indent : SIZE_MAX, 0);
		fputc('\n', screen->file);
		free(line);
		notes += bytes + (notes[bytes] == '\n');
	}
}

void table_print(const struct table *table, const struct screen *screen, size_t limit)
{
	struct layout layout = {.table = table,
				.rows = table_shown(table, limit),
				.shown = need(calloc(table->count, sizeof *layout.shown)),
				.widths = need(calloc(table->count, sizeof *layout.widths)),
				.fair = need(calloc(table->count, sizeof *layout.fair))};
	size_t last = 0, indent = 0;

	layout.texts = need(calloc(layout.rows * table->count + 1, sizeof *layout.texts));
	measure(&layout);
	if (screen->width) {
		spare(&layout, screen->width);
		squeeze(&layout, screen->width);
		fit_texts(&layout);
	}
	find_bars(&layout, screen);
	for (size_t c = 0; c < table->count; c++)
		if (layout.shown[c])
			last = c;
	for (size_t c = 0; c < last; c++)
		indent += layout.shown[c] ? layout.widths[c] + 2 + (c == layout.barred ? BAR + 1 : 0) : 0;
	print_head(&layout, screen, last);
	for (size_t r = 0; r < layout.rows; r++)
		print_row(&layout, screen, r, last, indent);
	if (layout.rows < table->rows || layout.rows < table->whole)
		fprintf(screen->file, "%s... and %zu more%s\n", screen_dim(screen),
			(table->rows < table->whole ? table->whole : table->rows) - layout.rows, screen_plain(screen));
	print_notes(table->notes ? table->notes : "", screen);

	for (size_t i = 0; i < layout.rows * table->count; i++)
		free(layout.texts[i]);
	free(layout.texts);
	free(layout.shown);
	free(layout.widths);
	free(layout.fair);
}
