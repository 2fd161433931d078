/* names.c - the capture's texts in memory. Written once, then only read: no locks. */
#include "names.h"

#include "../../proto/limits.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>

/* Ids are places in the segment's arena, in units of 8 bytes; room for a larger arena to come. */
#define ID_LIMIT (16 * (int64_t)LIMIT_STRINGS_BYTES / 8)

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
	size_t at = n->texts.used;
	uint32_t length = 0;
	buffer_put(&n->texts, (const char *)&length, sizeof length);
	buffer_put_escaped(&n->texts, text, bytes);
	if (n->texts.failed)
		return -ENOMEM;
	if (n->texts.used >= UINT32_MAX)
		return -EFBIG;
	length = (uint32_t)(n->texts.used - at - sizeof length);
	memcpy(n->texts.bytes + at, &length, sizeof length);
	n->offsets[id] = (uint32_t)at + 1;
	return 0;
}

int names_load(struct names *n, const struct reader *r)
{
	*n = (struct names){0};
	sqlite3_stmt *statement;
	int error = 0, row = SQLITE_ERROR;
	if (sqlite3_prepare_v2(r->db, "SELECT id, text FROM strings", -1, &statement, NULL) != SQLITE_OK)
		return -EIO;
	while (!error && (row = sqlite3_step(statement)) == SQLITE_ROW) {
		const char *text = (const char *)sqlite3_column_text(statement, 1);
		error = put(n, sqlite3_column_int64(statement, 0), text ? text : "",
			    (size_t)sqlite3_column_bytes(statement, 1));
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
	*n = (struct names){0};
}

void names_put(const struct names *n, struct buffer *b, int64_t id)
{
	uint32_t offset = id >= 0 && (size_t)id < n->size ? n->offsets[id] : 0, length;
	if (!offset)
		return;
	memcpy(&length, n->texts.bytes + offset - 1, sizeof length);
	buffer_put(b, n->texts.bytes + offset - 1 + sizeof length, length);
}

bool names_begins(const struct names *n, int64_t id, const char *prefix)
{
	uint32_t offset = id >= 0 && (size_t)id < n->size ? n->offsets[id] : 0, length;
	size_t bytes = strlen(prefix);
	if (!offset)
		return false;
	memcpy(&length, n->texts.bytes + offset - 1, sizeof length);
	return length >= bytes && memcmp(n->texts.bytes + offset - 1 + sizeof length, prefix, bytes) == 0;
}
