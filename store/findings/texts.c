/* texts.c - see texts.h */
#include "texts.h"

#include "store/breakdown/names.h"
#include "store/breakdown/scan.h"
#include "proto/base/array.h"

#include <stdlib.h>
#include <string.h>

struct reading {
	struct scan scan;
	struct texts *texts;
};

static void take_text(void *context, sqlite3_stmt *row)
{
	struct texts *texts = ((struct reading *)context)->texts;
	int64_t id = sqlite3_column_int64(row, 0);
	const char *text = (const char *)sqlite3_column_text(row, 1);
	if (!text)
		return;
	if (names_phase(text) == PHASE_INPUT && texts->input_count < TEXTS_IDS)
		texts->input[texts->input_count++] = id;
	if (strstr(text, "_SingleProcessDataLoaderIter"))
		texts->single_loader = true;
	if (strstr(text, "_MultiProcessingDataLoaderIter"))
		texts->workers_loader = true;
	texts->updates |= 1u << names_update(text);
	if (names_per_tensor(text) && ARRAY_GROW(texts->per_tensor, texts->per_tensor_count, texts->per_tensor_room))
		texts->per_tensor[texts->per_tensor_count++] = id;
}

bool texts_load(struct texts *texts, sqlite3 *db, const struct breakdown_watch *watch, int *ret_error)
{
	struct reading reading = {.scan = {.db = db, .watch = watch}, .texts = texts};
	texts->db = db;
	scan_each(&reading.scan, "SELECT id, text FROM strings ORDER BY id", take_text, &reading);
	*ret_error = reading.scan.error;
	return !reading.scan.error;
}

bool texts_gain_by_one_update(const struct texts *texts, bool device)
{
	unsigned fuses = texts->updates & 1u << NAMES_FUSES, others = texts->updates & 1u << NAMES_FOREACH;
	if (texts->updates & 1u << NAMES_FUSED)
		return false;
	return device ? fuses || others || !(texts->updates & 1u << NAMES_ALONE) : fuses != 0;
}

void texts_free(struct texts *texts)
{
	free(texts->per_tensor);
	*texts = (struct texts){0};
}

/* A long text is cut, but never within a character. */
static void get(const struct texts *texts, const char *sql, uint32_t id, char *to, size_t bytes)
{
	sqlite3_stmt *statement = NULL;
	*to = '\0';
	if (!id || sqlite3_prepare_v2(texts->db, sql, -1, &statement, NULL))
		return;
	sqlite3_bind_int64(statement, 1, (int64_t)id);
	if (sqlite3_step(statement) == SQLITE_ROW) {
		const char *text = (const char *)sqlite3_column_text(statement, 0);
		size_t n = text ? strlen(text) : 0;
		if (n > bytes - 1)
			for (n = bytes - 1; n && ((unsigned char)text[n] & 0xc0) == 0x80; n--)
				;
		memcpy(to, text ? text : "", n);
		to[n] = '\0';
	}
	sqlite3_finalize(statement);
}

void texts_get(const struct texts *texts, uint32_t id, char *to, size_t bytes)
{
	get(texts, "SELECT text FROM strings WHERE id = ?1", id, to, bytes);
}

void texts_get_kernel(const struct texts *texts, uint32_t id, char *to, size_t bytes)
{
	get(texts,
	    "SELECT text FROM strings WHERE id = coalesce((SELECT short FROM kernel_names WHERE mangled = ?1), ?1)", id,
	    to, bytes);
}
