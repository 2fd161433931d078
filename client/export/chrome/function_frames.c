/* function_frames.c - see function_frames.h. The file may come from anybody: numbers are looked at before they are used. No locks. */
#include "function_frames.h"

#include "proto/base/array.h"
#include "proto/limits.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

static void take_module(struct function_frames *frames, sqlite3_stmt *row)
{
	int64_t id = sqlite3_column_int64(row, 0), parent = sqlite3_column_int64(row, 1);
	if (id < 1 || id > LIMIT_STACKS)
		return;
	frames->module_count = (uint32_t)id;
	frames->modules[id] = (struct function_module){
		.parent = parent > 0 && parent < id ? (uint32_t)parent : 0,
		.name = (uint32_t)sqlite3_column_int64(row, 2),
		.class = (uint32_t)sqlite3_column_int64(row, 3),
		.first = INT64_MAX,
	};
}

static void take_frame(struct function_frames *frames, sqlite3_stmt *row)
{
	int64_t id = sqlite3_column_int64(row, 0), parent = sqlite3_column_int64(row, 1);
	int64_t module = sqlite3_column_int64(row, 6);
	if (id < 1 || id > LIMIT_STACKS)
		return;
	const struct function_frame *caller = parent > 0 && parent < id ? &frames->frames[parent] : NULL;
	/* What is called from nowhere, or deeper than anything is read, is no frame. */
	if (parent && (!caller || !caller->depth || caller->depth >= FUNCTION_DEPTH))
		return;
	bool calls = module > 0 && module <= frames->module_count && frames->modules[module].class;
	frames->frame_count = (uint32_t)id;
	frames->frames[id] = (struct function_frame){
		.parent = (uint32_t)parent,
		.function = (uint32_t)sqlite3_column_int64(row, 2),
		.file = (uint32_t)sqlite3_column_int64(row, 3),
		.line = (uint32_t)sqlite3_column_int64(row, 4),
		.first_line = (uint32_t)sqlite3_column_int64(row, 5),
		.module = calls ? (uint32_t)module : 0,
		.modules = (uint16_t)((caller ? caller->modules : 0) + calls),
		.depth = (uint16_t)(caller ? caller->depth + 1 : 1),
	};
}

static int load(struct function_frames *frames, const struct reader *r, const char *sql,
		void (*take)(struct function_frames *frames, sqlite3_stmt *row))
{
	sqlite3_stmt *row;
	int code;
	/* Files of earlier releases do not have the table. */
	if (sqlite3_prepare_v2(r->db, sql, -1, &row, NULL) != SQLITE_OK)
		return 0;
	while ((code = sqlite3_step(row)) == SQLITE_ROW)
		take(frames, row);
	sqlite3_finalize(row);
	return code == SQLITE_DONE ? 0 : -EIO;
}

int function_frames_load(struct function_frames *ret, const struct reader *r)
{
	*ret = (struct function_frames){
		.frames = calloc((size_t)LIMIT_STACKS + 1, sizeof *ret->frames),
		.modules = calloc((size_t)LIMIT_STACKS + 1, sizeof *ret->modules),
	};
	if (!ret->frames || !ret->modules)
		return -ENOMEM;
	/* "?": frames that were not read may have called any. */
	int error = load(
		ret, r,
		"SELECT m.id, m.parent, m.name, iif(c.text = '?', 0, m.class) FROM nn_modules m LEFT JOIN strings c ON c.id = "
		"m.class ORDER BY m.id",
		take_module);
	return error ? error
		     : load(ret, r,
			    "SELECT s.id, s.parent, s.function, s.file, s.line, s.first_line, m.module FROM stacks s LEFT JOIN "
			    "stack_modules m ON m.stack = s.id AND s.class IS NOT NULL ORDER BY s.id",
			    take_frame);
}

static int compare_modules(const void *left, const void *right, void *user)
{
	const struct function_module *modules = user, *a = &modules[*(const uint32_t *)left],
				     *b = &modules[*(const uint32_t *)right];
	return ORDER(a->class, b->class) ?: ORDER(a->first, b->first) ?: ORDER(a, b);
}

int function_frames_number(struct function_frames *frames)
{
	uint32_t *order = malloc((frames->module_count + 1) * sizeof *order);
	if (!order)
		return -ENOMEM;
	for (uint32_t i = 0; i <= frames->module_count; i++)
		order[i] = i;
	qsort_r(order, (size_t)frames->module_count + 1, sizeof *order, compare_modules, frames->modules);
	for (uint32_t i = 1; i <= frames->module_count; i++) {
		const struct function_module *last = &frames->modules[order[i - 1]];
		struct function_module *module = &frames->modules[order[i]];
		module->number = module->class == last->class && last->class ? last->number + 1 : 0;
	}
	free(order);
	return 0;
}

void function_frames_deinit(struct function_frames *frames)
{
	free(frames->frames);
	free(frames->modules);
	*frames = (struct function_frames){0};
}

/* Packages and the standard library are written from where Python looks for them on. */
static const char *shorten(const char *path, size_t *bytes)
{
	static const char *const folders[] = {"/site-packages/", "/dist-packages/", "/lib/python3."};
	for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
		const char *found = memmem(path, *bytes, folders[i], strlen(folders[i]));
		const char *from = found ? found + strlen(folders[i]) : NULL, *end = path + *bytes;
		if (from && folders[i][strlen(folders[i]) - 1] != '/') {
			from = memchr(from, '/', (size_t)(end - from));
			from = from ? from + 1 : NULL;
		}
		if (!from)
			continue;
		*bytes = (size_t)(end - from);
		return from;
	}
	return path;
}

static void put_file(const struct names *names, struct buffer *b, uint32_t file)
{
	size_t bytes;
	const char *text = names_text(names, file, &bytes);
	text = shorten(text, &bytes);
	buffer_put(b, text, bytes);
}

/* Without the class and what else it lies in. */
static void put_function(const struct names *names, struct buffer *b, uint32_t function)
{
	size_t bytes;
	const char *text = names_text(names, function, &bytes), *dot = memrchr(text, '.', bytes);
	const char *from = dot ? dot + 1 : text;
	buffer_put(b, from, bytes - (size_t)(from - text));
}

void function_frames_put_name(const struct function_frames *frames, const struct names *names, struct buffer *b,
			      const struct function_frame *frame)
{
	if (frame->module) {
		BUFFER_PUT(b, "nn.Module: ");
		names_put(names, b, frames->modules[frame->module].class);
		BUFFER_PUT(b, "_");
		buffer_put_uint(b, frames->modules[frame->module].number);
		return;
	}
	put_file(names, b, frame->file);
	BUFFER_PUT(b, "(");
	buffer_put_uint(b, frame->first_line);
	BUFFER_PUT(b, "): ");
	put_function(names, b, frame->function);
}

void function_frames_put_place(const struct names *names, struct buffer *b, const struct function_frame *frame)
{
	put_file(names, b, frame->file);
	BUFFER_PUT(b, ":");
	buffer_put_uint(b, frame->line);
}

void function_frames_put_path(const struct function_frames *frames, const struct names *names, struct buffer *b,
			      uint32_t module)
{
	uint32_t above[FUNCTION_DEPTH], count = 0;
	for (; module && count < FUNCTION_DEPTH; module = frames->modules[module].parent)
		above[count++] = module;
	/* The outermost one has no name, but its class. */
	for (uint32_t i = count > 1 ? count - 1 : count; i-- > 0;) {
		const struct function_module *one = &frames->modules[above[i]];
		bool named = one->name && count > 1;
		if (!named && count > 1)
			BUFFER_PUT(b, "(");
		names_put(names, b, named ? one->name : one->class);
		if (!named && count > 1)
			BUFFER_PUT(b, ")");
		if (i)
			BUFFER_PUT(b, ".");
	}
}
