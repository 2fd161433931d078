/* distributed.c - see distributed.h. An imported trace's own comes back; of a job it is what is known: its rank, the world's size, and the
 * backend where its ranges name one. */
#include "distributed.h"

#include "proto/events.h"

#include <cjson/cJSON.h>

static bool is_object(const char *text)
{
	cJSON *parsed = cJSON_ParseWithOpts(text, NULL, 1);
	bool ret = cJSON_IsObject(parsed);
	cJSON_Delete(parsed);
	return ret;
}

/* Ranges are looked through only where a text says that there may be such a one. */
#define HAS_RANGE(of)                                                                                                  \
	"SELECT EXISTS (SELECT 1 FROM strings WHERE text GLOB '" of ":*') AND EXISTS (SELECT 1 FROM ranges WHERE "     \
	"source = 4 AND name IN (SELECT id FROM strings WHERE text GLOB '" of ":*'))"
_Static_assert(RANGE_SOURCE_TORCH_USER == 4, "as the statement has it");

/* NULL: none is known, or there are several. */
static const char *backend(const struct chrome *c)
{
	bool nccl = reader_count(c->reader, HAS_RANGE("nccl"), 0), gloo = reader_count(c->reader, HAS_RANGE("gloo"), 0);
	return nccl && gloo ? NULL : nccl ? "nccl" : gloo ? "gloo" : NULL;
}

void distributed_put(const struct chrome *c, struct buffer *b)
{
	int64_t rank = reader_meta_int(c->reader, "rank", -1), world = reader_meta_int(c->reader, "world_size", -1);
	const char *told = reader_meta_text(c->reader, "distributed_info");
	const char *name;
	if (told && is_object(told)) {
		BUFFER_PUT(b, "\"distributedInfo\": ");
		buffer_put_utf8(b, told, strlen(told));
		BUFFER_PUT(b, ",\n  ");
		return;
	}
	if (rank < 0)
		return;
	BUFFER_PUT(b, "\"distributedInfo\": {");
	name = backend(c);
	if (name) {
		BUFFER_PUT(b, "\"backend\": ");
		buffer_put_string(b, name);
		BUFFER_PUT(b, ", ");
	}
	BUFFER_PUT(b, "\"rank\": ");
	buffer_put_int(b, rank);
	if (world > 0) {
		BUFFER_PUT(b, ", \"world_size\": ");
		buffer_put_int(b, world);
	}
	BUFFER_PUT(b, "},\n  ");
}
