/* names.c - the capture's texts in memory. Written once, then only read: no locks. */
#include "names.h"

#include "proto/base/array.h"
#include "proto/limits.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>

/* Ids are places in the segment's arena, in units of 8 bytes; room for a larger arena to come. */
#define ID_LIMIT (16 * (int64_t)LIMIT_STRINGS_BYTES / 8)

/* Readers take whatever is named so for a step of ours, and stop at one without a number: the job's own, of a
 * torch.profiler that waits in its schedule, is written otherwise. */
static const char step[] = "ProfilerStep", other_step[] = "Profiler step";

static void put_renamed(struct buffer *b, const char *text, size_t bytes)
{
	const char *end = text + bytes, *found;
	while ((found = memmem(text, (size_t)(end - text), step, sizeof step - 1))) {
		buffer_put_escaped(b, text, (size_t)(found - text));
		buffer_put(b, other_step, sizeof other_step - 1);
		text = found + sizeof step - 1;
	}
	buffer_put_escaped(b, text, (size_t)(end - text));
}

/* Appends a text behind its length. 0 or a negative errno. */
static int append(struct names *n, const char *text, size_t bytes, void (*write)(struct buffer *, const char *, size_t))
{
	size_t at = n->texts.used;
	uint32_t length = 0;
	buffer_put(&n->texts, (const char *)&length, sizeof length);
	write(&n->texts, text, bytes);
	if (n->texts.failed)
		return -ENOMEM;
	if (n->texts.used >= UINT32_MAX)
		return -EFBIG;
	length = (uint32_t)(n->texts.used - at - sizeof length);
	memcpy(n->texts.bytes + at, &length, sizeof length);
	return 0;
}

/* Keeps what a text was before it was renamed. */
static int put_original(struct names *n, int64_t id, const char *text, size_t bytes)
{
	if (!ARRAY_GROW(n->renamed, n->renamed_count, n->renamed_size))
		return -ENOMEM;
	n->renamed[n->renamed_count++] = (struct renamed){.id = id, .offset = (uint32_t)n->texts.used};
	return append(n, text, bytes, buffer_put_escaped);
}

static int put(struct names *n, int64_t id, const char *text, size_t bytes)
{
	if (id < 0 || id >= ID_LIMIT)
		return 0; /* not an id that an event can have */
	if ((size_t)id >= n->size) {
		size_t size = n->size ? n->size : 4096;
		while (size <= (size_t)id)
			size *= 2;
		uint32_t *grown = realloc(n->offsets, size * sizeof *grown);
		if (!grown)
			return -ENOMEM;
		memset(grown + n->size, 0, (size - n->size) * sizeof *grown);
		n->offsets = grown;
		n->size = size;
	}
	n->offsets[id] = (uint32_t)n->texts.used + 1;
	if (!memmem(text, bytes, step, sizeof step - 1))
		return append(n, text, bytes, buffer_put_escaped);
	int error = append(n, text, bytes, put_renamed);
	return error ? error : put_original(n, id, text, bytes);
}

int names_load(struct names *n, const struct reader *r)
{
	*n = (struct names){0};
	sqlite3_stmt *statement;
	int error = 0, row = SQLITE_ERROR;
	int64_t left = bounds_rows(r->bounds);
	if (sqlite3_prepare_v2(r->db, "SELECT id, text FROM strings", -1, &statement, NULL) != SQLITE_OK)
		return -EIO;
	while (!error && (row = sqlite3_step(statement)) == SQLITE_ROW) {
		const char *text = (const char *)sqlite3_column_text(statement, 1);
		error = left-- > 0 ? put(n, sqlite3_column_int64(statement, 0), text ? text : "",
					 (size_t)sqlite3_column_bytes(statement, 1))
				   : -EIO;
	}
	sqlite3_finalize(statement);
	if (!error && row != SQLITE_DONE)
		error = -EIO;
	if (error)
		names_deinit(n);
	return error;
}

void names_deinit(struct names *n)
{
	buffer_deinit(&n->texts);
	free(n->offsets);
	free(n->renamed);
	*n = (struct names){0};
}

static const char *text_at(const struct names *n, uint32_t offset, size_t *ret_bytes)
{
	uint32_t length;
	memcpy(&length, n->texts.bytes + offset, sizeof length);
	*ret_bytes = length;
	return n->texts.bytes + offset + sizeof length;
}

static void put_at(const struct names *n, struct buffer *b, uint32_t offset)
{
	size_t bytes;
	const char *text = text_at(n, offset, &bytes);
	buffer_put(b, text, bytes);
}

const char *names_text(const struct names *n, int64_t id, size_t *ret_bytes)
{
	uint32_t offset = id >= 0 && (size_t)id < n->size ? n->offsets[id] : 0;
	*ret_bytes = 0;
	return offset ? text_at(n, offset - 1, ret_bytes) : "";
}

void names_put(const struct names *n, struct buffer *b, int64_t id)
{
	size_t bytes;
	const char *text = names_text(n, id, &bytes);
	buffer_put(b, text, bytes);
}

static int compare_renamed(const void *left, const void *right)
{
	const struct renamed *a = left, *b = right;
	return ORDER(a->id, b->id);
}

bool names_is_renamed(const struct names *n, int64_t id)
{
	return n->renamed_count &&
	       bsearch(&(struct renamed){.id = id}, n->renamed, n->renamed_count, sizeof *n->renamed, compare_renamed);
}

void names_put_original(const struct names *n, struct buffer *b, int64_t id)
{
	const struct renamed *found =
		bsearch(&(struct renamed){.id = id}, n->renamed, n->renamed_count, sizeof *n->renamed, compare_renamed);
	if (found)
		put_at(n, b, found->offset);
}

bool names_begins(const struct names *n, int64_t id, const char *prefix)
{
	size_t bytes = strlen(prefix), length;
	const char *text = names_text(n, id, &length);
	return length >= bytes && memcmp(text, prefix, bytes) == 0;
}
