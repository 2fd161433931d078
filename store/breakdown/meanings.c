/* meanings.c - see meanings.h. */
#include "meanings.h"

#include "names.h"
#include "proto/base/array.h"

#include <stdlib.h>
#include <string.h>

struct reading {
	struct meanings *meanings;
	struct scan *scan;
};

static void take_text(void *context, sqlite3_stmt *row)
{
	struct reading *reading = context;
	struct meanings *meanings = reading->meanings;
	const char *text = (const char *)sqlite3_column_text(row, 1);
	if (!text)
		return;
	if (!ARRAY_GROW(meanings->items, meanings->count, meanings->room)) {
		scan_no_memory(reading->scan);
		return;
	}
	meanings->items[meanings->count++] = (struct meaning){.id = row_int(row, 0),
							      .phase = (uint8_t)names_phase(text),
							      .doing = (uint8_t)names_operator(text),
							      .call = (uint8_t)names_call(text),
							      .backward = names_backward(text),
							      .slow = names_without_tensor_cores(text),
							      .graph = strcasestr(text, "GraphLaunch") != NULL,
							      .kernel = strstr(text, "LaunchKernel") != NULL,
							      .takes_tensor = names_takes_tensor(text),
							      .module = names_module(text),
							      .searches = names_searches_compiled(text),
							      .compiled = names_runs_compiled(text),
							      .network = (uint8_t)names_network(text)};
}

void meanings_read(struct meanings *meanings, struct scan *scan)
{
	*meanings = (struct meanings){0};
	scan_each(scan, "SELECT id, text FROM strings ORDER BY id", take_text, &(struct reading){meanings, scan});
}

struct meaning meaning_of(const struct meanings *meanings, int64_t id)
{
	/* Most files number their strings without holes. */
	uint64_t place = meanings->count ? (uint64_t)id - (uint64_t)meanings->items[0].id : 0;
	if (place < meanings->count && meanings->items[place].id == id)
		return meanings->items[place];
	size_t low = ARRAY_BEFORE(meanings->count, middle, meanings->items[middle].id < id);
	if (low < meanings->count && meanings->items[low].id == id)
		return meanings->items[low];
	return (struct meaning){.phase = PHASE_NONE, .doing = DOING_OPERATOR, .call = DOING_CALL};
}

void meanings_free(struct meanings *meanings)
{
	free(meanings->items);
	*meanings = (struct meanings){0};
}
