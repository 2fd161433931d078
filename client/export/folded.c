/* folded.c - sampled stacks as lines of text, a different stack a line: its functions, the outermost first, with ; between, and how
 * long it was seen, in microseconds. flamegraph.pl and speedscope read it. */
#include "export.h"

#include "stream.h"

#include "proto/limits.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MOST 1024

struct frame {
	uint32_t parent;
	int64_t ns;
	char *text; /* "name (file:line)"; NULL: there is no such frame */
};

struct folded {
	const struct reader *reader;
	struct frame *frames;
	uint32_t count;
};

export_write folded_write;

static sqlite3_stmt *prepare(const struct folded *folded, const char *sql)
{
	sqlite3_stmt *statement;

	return sqlite3_prepare_v2(folded->reader->db, sql, -1, &statement, NULL) == SQLITE_OK ? statement : NULL;
}

/* ; parts frames, and a line ends a stack. */
static char *clean(char *text)
{
	for (char *at = text; at && *at; at++)
		if (*at == ';' || (unsigned char)*at < ' ')
			*at = '_';
	return text;
}

static char *frame_text(const char *function, const char *file, int64_t line)
{
	const char *slash = file ? strrchr(file, '/') : NULL;
	char *text = NULL;

	if (asprintf(&text, "%s (%s:%lld)", function ? function : "?",
		     slash  ? slash + 1
		     : file ? file
			    : "?",
		     (long long)line) < 0)
		return NULL;
	return clean(text);
}

static int load_frame(struct folded *folded, sqlite3_stmt *row)
{
	int64_t id = sqlite3_column_int64(row, 0), parent = sqlite3_column_int64(row, 1);

	if (id < 1 || id > LIMIT_STACKS || folded->frames[id].text)
		return 0;
	folded->frames[id] = (struct frame){
		.parent = parent > 0 && parent < id ? (uint32_t)parent : 0,
		.text = frame_text((const char *)sqlite3_column_text(row, 2), (const char *)sqlite3_column_text(row, 3),
				   sqlite3_column_int64(row, 4)),
	};
	folded->count = (uint32_t)id;
	return folded->frames[id].text ? 0 : -ENOMEM;
}

static int load(struct folded *folded)
{
	int error = 0, code = SQLITE_DONE;
	sqlite3_stmt *row =
		prepare(folded, "SELECT s.id, s.parent, n.text, f.text, s.line FROM stacks s LEFT JOIN strings "
				"n ON n.id = s.function LEFT JOIN strings f ON f.id = s.file ORDER BY s.id");

	while (row && !error && (code = sqlite3_step(row)) == SQLITE_ROW)
		error = load_frame(folded, row);
	sqlite3_finalize(row);
	if (!row || (!error && code != SQLITE_DONE))
		return -EIO;
	row = prepare(folded, "SELECT stack, sum(duration) FROM samples GROUP BY stack");
	while (row && (code = sqlite3_step(row)) == SQLITE_ROW) {
		int64_t id = sqlite3_column_int64(row, 0), ns = sqlite3_column_int64(row, 1);

		if (id >= 0 && id <= folded->count && ns > 0)
			folded->frames[id].ns = ns;
	}
	sqlite3_finalize(row);
	return row && code == SQLITE_DONE ? 0 : -EIO;
}

static void put_stack(const struct folded *folded, struct buffer *b, uint32_t id)
{
	const struct frame *chain[DEPTH_MOST];
	size_t depth = 0;

	for (uint32_t at = id; at && folded->frames[at].text && depth < DEPTH_MOST; at = folded->frames[at].parent)
		chain[depth++] = &folded->frames[at];
	if (!depth)
		BUFFER_PUT(b, "(no Python)");
	while (depth > 0) {
		const char *text = chain[--depth]->text;

		buffer_put(b, text, strlen(text));
		if (depth)
			BUFFER_PUT(b, ";");
	}
	BUFFER_PUT(b, " ");
	buffer_put_int(b, folded->frames[id].ns / 1000 + (folded->frames[id].ns % 1000 >= 500));
	BUFFER_PUT(b, "\n");
}

static bool is_recorded(const struct folded *folded)
{
	sqlite3_stmt *row = prepare(folded, "SELECT ran FROM collectors WHERE collector = 'python'");
	bool ran = row && sqlite3_step(row) == SQLITE_ROW && sqlite3_column_int(row, 0);

	sqlite3_finalize(row);
	return ran;
}

int folded_write(struct reader *readers, size_t count, const struct export_options *options, struct stream *stream,
		 char *why, size_t why_bytes)
{
	struct folded folded = {.reader = &readers[0]};
	struct block *block = stream_head(stream);
	int error = 0;

	(void)count;
	(void)options;
	if (!is_recorded(&folded)) {
		snprintf(why, why_bytes, "Python stacks were not recorded: record them with `profd trigger --stacks`");
		return -ENOTSUP;
	}
	folded.frames = calloc((size_t)LIMIT_STACKS + 1, sizeof *folded.frames);
	error = folded.frames ? load(&folded) : -ENOMEM;
	for (uint32_t id = 0; !error && id <= folded.count; id++) {
		if (folded.frames[id].ns)
			put_stack(&folded, &block->text, id);
		error = block_flush_full(block);
	}
	if (!error)
		error = block_flush(block);
	if (error)
		snprintf(why, why_bytes, "%s",
			 error == -ENOMEM ? "there is no memory for the stacks" : "the file is damaged");
	for (uint32_t id = 0; folded.frames && id <= folded.count; id++)
		free(folded.frames[id].text);
	free(folded.frames);
	return error;
}
