/* stack_frames.c - see stack_frames.h. The file may come from anybody: numbers are looked at before they are used. */
#include "stack_frames.h"

#include "proto/limits.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

static char *copy_text(sqlite3_stmt *row, int column)
{
	const char *text = (const char *)sqlite3_column_text(row, column);

	return strdup(text ? text : "?");
}

static int load_frame(struct stack_frames *frames, sqlite3_stmt *row)
{
	int64_t id = sqlite3_column_int64(row, 0), parent = sqlite3_column_int64(row, 1);

	if (id < 1 || id > LIMIT_STACKS || frames->frames[id].function)
		return 0;
	struct stack_frame *frame = &frames->frames[id];
	frames->count = (uint32_t)id;
	frame->parent = parent > 0 && parent < id ? (uint32_t)parent : 0;
	frame->line = sqlite3_column_int64(row, 4);
	frame->function = copy_text(row, 2);
	/* NOLINTNEXTLINE(-Wanalyzer-malloc-leak): stack_frames_free() frees the function */
	frame->file = copy_text(row, 3);
	/* NOLINTNEXTLINE(-Wanalyzer-malloc-leak): and the file */
	return frame->function && frame->file ? 0 : -ENOMEM;
}

int stack_frames_load(struct stack_frames *ret, const struct reader *reader)
{
	int error = 0, code = SQLITE_DONE;
	sqlite3_stmt *row = NULL;

	*ret = (struct stack_frames){.frames = calloc((size_t)LIMIT_STACKS + 1, sizeof *ret->frames)};
	if (!ret->frames)
		return -ENOMEM;
	if (sqlite3_prepare_v2(
		    reader->db,
		    "SELECT s.id, s.parent, n.text, f.text, s.line FROM stacks s LEFT JOIN strings n ON n.id = "
		    "s.function LEFT JOIN strings f ON f.id = s.file ORDER BY s.id",
		    -1, &row, NULL) != SQLITE_OK)
		return -EIO;
	while (!error && (code = sqlite3_step(row)) == SQLITE_ROW)
		error = load_frame(ret, row);
	sqlite3_finalize(row);
	return error || code == SQLITE_DONE ? error : -EIO;
}

void stack_frames_free(struct stack_frames *frames)
{
	for (uint32_t id = 0; frames->frames && id <= frames->count; id++) {
		free(frames->frames[id].function);
		free(frames->frames[id].file);
	}
	free(frames->frames);
	*frames = (struct stack_frames){0};
}
