/* inputs.c - operators' inputs, looked up by id. */
#include "inputs.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <sqlite3.h>

/* Texts that are kept: 512 of at most this many bytes are 4 MiB a thread. */
#define KEPT_BYTES 8192

void inputs_deinit(struct inputs *inputs)
{
	sqlite3_finalize(inputs->find);
	inputs->find = NULL;
	for (size_t i = 0; i < INPUTS_CACHE; i++)
		buffer_deinit(&inputs->entries[i].text);
}

/* The column's text as a value. It is JSON already; in a file where it is not, it becomes a string. */
static void put_value(struct buffer *b, const char *key, const char *text, size_t bytes)
{
	if (!text || !bytes)
		return;
	BUFFER_PUT(b, ",\"");
	buffer_put(b, key, strlen(key));
	BUFFER_PUT(b, "\":");
	cJSON *parsed = cJSON_ParseWithLengthOpts(text, bytes + 1, NULL, 1);
	if (cJSON_IsArray(parsed)) {
		buffer_put_utf8(b, text, bytes);
	} else {
		BUFFER_PUT(b, "\"");
		buffer_put_escaped(b, text, bytes);
		BUFFER_PUT(b, "\"");
	}
	cJSON_Delete(parsed);
}

int inputs_put(struct inputs *inputs, const struct reader *r, struct buffer *b, int64_t id)
{
	static const char *const keys[] = {"Concrete Inputs", "Input type", "Input Strides", "Input Dims"};
	struct inputs_entry *entry = &inputs->entries[(uint64_t)id % INPUTS_CACHE];
	if (entry->id != id) {
		if (!inputs->find &&
		    sqlite3_prepare_v2(r->db, "SELECT concrete, types, strides, dims FROM inputs WHERE id = ?", -1,
				       &inputs->find, NULL) != SQLITE_OK)
			return -EIO;
		if (entry->text.size > KEPT_BYTES)
			buffer_deinit(&entry->text);
		entry->id = id;
		entry->text.used = 0;
		sqlite3_bind_int64(inputs->find, 1, id);
		if (sqlite3_step(inputs->find) == SQLITE_ROW)
			for (int i = 0; i < 4; i++)
				put_value(&entry->text, keys[i], (const char *)sqlite3_column_text(inputs->find, i),
					  (size_t)sqlite3_column_bytes(inputs->find, i));
		if (sqlite3_reset(inputs->find) != SQLITE_OK)
			return -EIO;
		if (entry->text.failed)
			return -ENOMEM;
	}
	buffer_put(b, entry->text.bytes, entry->text.used);
	return 0;
}
