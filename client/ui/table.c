/* table.c - see table.h. */
#include "table.h"

#include "text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Off a terminal nothing is cut but what no file should hold either. */
#define CELL_WIDTH_MAX 400
#define CELL_WIDTH_MIN 8
/* What an elastic column wants before spare ones get any. */
#define CELL_WIDTH_FAIR 26
/* A column narrower than that is no place for a sentence: it runs over the edge instead. */
#define WRAP_WIDTH_MIN 24

enum cell_type { CELL_EMPTY, CELL_INTEGER, CELL_REAL, CELL_TEXT, CELL_ABSENT };

struct cell {
	enum cell_type type;
	union {
		int64_t integer;
		double real;
		char *text; /* as it came */
	};
};

struct table {
	const struct column *columns;
	size_t count;
	struct cell *cells; /* rows * count */
	bool *marked;
	size_t rows;
	size_t room;
	size_t whole; /* more than `rows` where the rest is elsewhere */
};

struct table *table_new(const struct column *columns, size_t count)
{
	struct table *table = need(calloc(1, sizeof *table));

	table->columns = columns;
	table->count = count;
	return table;
}

struct table *table_free(struct table *table)
{
	if (!table)
		return NULL;
	for (size_t i = 0; i < table->rows * table->count; i++)
		if (table->cells[i].type == CELL_TEXT)
			free(table->cells[i].text);
	free(table->cells);
	free(table->marked);
	free(table);
	return NULL;
}

void table_add(struct table *table)
{
	if (table->rows == table->room) {
		table->room = table->room ? 2 * table->room : 32;
		table->cells = need(reallocarray(table->cells, table->room * table->count, sizeof *table->cells));
		table->marked = need(reallocarray(table->marked, table->room, sizeof *table->marked));
	}
	memset(table->cells + table->rows * table->count, 0, table->count * sizeof *table->cells);
	table->marked[table->rows++] = false;
}

static struct cell *newest(struct table *table, size_t column)
{
	struct cell *cell = &table->cells[(table->rows - 1) * table->count + column];

	if (cell->type == CELL_TEXT)
		free(cell->text);
	return cell;
}

void table_set(struct table *table, size_t column, int64_t value)
{
	struct cell *cell = newest(table, column);

	cell->type = CELL_INTEGER;
	cell->integer = value;
}

void table_set_real(struct table *table, size_t column, double value)
{
	struct cell *cell = newest(table, column);

	cell->type = CELL_REAL;
	cell->real = value;
}

void table_set_text(struct table *table, size_t column, const char *text)
{
	struct cell *cell = newest(table, column);

	cell->type = text ? CELL_TEXT : CELL_EMPTY;
	cell->text = text ? need(strdup(text)) : NULL;
}

void table_unset(struct table *table, size_t column)
{
	newest(table, column)->type = CELL_EMPTY;
}

void table_set_absent(struct table *table, size_t column)
{
	newest(table, column)->type = CELL_ABSENT;
}

void table_mark(struct table *table)
{
	table->marked[table->rows - 1] = true;
}

void table_set_whole(struct table *table, size_t rows)
{
	table->whole = rows;
}

size_t table_rows(const struct table *table)
{
	return table->rows;
}

struct screen screen_output(void)
{
	struct screen screen = {.file = stdout};
	const char *plain = getenv("NO_COLOR");
	const char *terminal = getenv("TERM");
	struct winsize size;

	if (!isatty(STDOUT_FILENO))
		return screen;
	screen.width = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20 ? size.ws_col : 80;
	screen.color = !(plain && *plain) && !(terminal && strcmp(terminal, "dumb") == 0);
	return screen;
}

const char *screen_bold(const struct screen *screen)
{
	return screen->color ? "\033[1m" : "";
}

const char *screen_warn(const struct screen *screen)
{
	return screen->color ? "\033[33m" : "";
}

const char *screen_dim(const struct screen *screen)
{
	return screen->color ? "\033[2m" : "";
}

const char *screen_plain(const struct screen *screen)
{
	return screen->color ? "\033[0m" : "";
}

static size_t shown_rows(const struct table *table, size_t limit)
{
	return limit && limit < table->rows ? limit : table->rows;
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
			 kind == COLUMN_PERCENT ? "%.1f%%"
			 : kind == COLUMN_RATE	? "%.2f GB/s"
						: "%g",
			 cell->real);
		return need(strdup(text));
	case CELL_INTEGER:
		break;
	}
	switch (kind) {
	case COLUMN_DURATION:
		return need(strdup(text_duration(text, cell->integer)));
	case COLUMN_BYTES:
		return need(strdup(text_bytes(text, cell->integer)));
	case COLUMN_COUNT:
		return need(strdup(text_count(text, cell->integer)));
	case COLUMN_FLAG:
		return need(strdup(cell->integer ? "yes" : "no"));
	case COLUMN_TEXT:
	case COLUMN_NUMBER:
	case COLUMN_PERCENT:
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

/* Hides spare columns, the last ones first, until the elastic ones have what they want, or a fair share of it. */
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
	size_t rows = shown_rows(table, limit);
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

	for (size_t i = 0; i < rows * table->count; i++)
		free(texts[i]);
	free(texts);
	free(shown);
	free(widths);
}

static void csv_text(FILE *file, const char *text)
{
	/* It may well be looked at on a terminal. */
	char *clean = text_safe(text);

	if (!strpbrk(clean, ",\"\r\n")) {
		fputs(clean, file);
	} else {
		fputc('"', file);
		for (const char *p = clean; *p; p++) {
			if (*p == '"')
				fputc('"', file);
			fputc(*p, file);
		}
		fputc('"', file);
	}
	free(clean);
}

void table_csv(const struct table *table, FILE *file, size_t limit)
{
	size_t rows = shown_rows(table, limit);

	for (size_t r = 0; r < rows + 1; r++) {
		bool first = true;

		for (size_t c = 0; c < table->count; c++) {
			const struct column *column = &table->columns[c];
			const struct cell *cell;

			if (column->flags & COLUMN_TABLE_ONLY)
				continue;
			if (!first)
				fputc(',', file);
			first = false;
			if (r == 0) {
				fputs(column->key, file);
				continue;
			}
			cell = &table->cells[(r - 1) * table->count + c];
			if (cell->type == CELL_TEXT)
				csv_text(file, cell->text);
			else if (cell->type == CELL_REAL)
				fprintf(file, "%.6g", cell->real);
			else if (cell->type == CELL_INTEGER && column->kind == COLUMN_FLAG)
				fputs(cell->integer ? "true" : "false", file);
			else if (cell->type == CELL_INTEGER)
				fprintf(file, "%lld", (long long)cell->integer);
		}
		fputc('\n', file);
	}
}

/* "7,13" as an array. */
static cJSON *numbers(const char *list)
{
	cJSON *array = need(cJSON_CreateArray());
	char *end;

	for (const char *at = list; *at; at = *end ? end + 1 : end) {
		long long number = strtoll(at, &end, 10);

		if (end == at)
			break;
		cJSON_AddItemToArray(array, need(cJSON_CreateNumber((double)number)));
	}
	return array;
}

cJSON *table_json(const struct table *table, size_t limit)
{
	size_t rows = shown_rows(table, limit);
	cJSON *array = need(cJSON_CreateArray());

	for (size_t r = 0; r < rows; r++) {
		cJSON *object = need(cJSON_CreateObject());

		for (size_t c = 0; c < table->count; c++) {
			const struct column *column = &table->columns[c];
			const struct cell *cell = &table->cells[r * table->count + c];
			cJSON *value = NULL;
			char *clean;

			if (column->flags & COLUMN_TABLE_ONLY)
				continue;
			switch (cell->type) {
			case CELL_EMPTY:
			case CELL_ABSENT:
				value = cJSON_CreateNull();
				break;
			case CELL_INTEGER:
				value = column->kind == COLUMN_FLAG ? cJSON_CreateBool(cell->integer != 0)
								    : cJSON_CreateNumber((double)cell->integer);
				break;
			case CELL_REAL:
				/* Three decimals are more than was measured. */
				value = cJSON_CreateNumber(round(cell->real * 1000) / 1000);
				break;
			case CELL_TEXT:
				if (column->kind == COLUMN_LIST) {
					value = numbers(cell->text);
					break;
				}
				clean = text_utf8(cell->text);
				value = cJSON_CreateString(clean);
				free(clean);
				break;
			}
			cJSON_AddItemToObject(object, column->key, need(value));
		}
		cJSON_AddItemToArray(array, object);
	}
	return array;
}
