/* tree.c - operators and ranges by what called them: of each way by which they are reached, the calls and their time. */
#include "names.h"
#include "parts.h"

#include "client/report/calls.h"
#include "client/report/recorded.h"
#include "client/ui/figure.h"
#include "client/ui/text.h"

#include <stdlib.h>

/* What takes less than this part of all is not drawn. */
#define SMALLEST 4000
#define MOST_NODES 6000

/* Total of what stands at the top, in ns. */
static int64_t sum_of_roots(const struct calls *calls, bool device)
{
	int64_t sum = 0;

	for (size_t i = 1; i < calls->count; i++)
		if (!calls->nodes[i].parent)
			figure_add(&sum, device ? calls->nodes[i].device_total : calls->nodes[i].total);
	return sum;
}

static void write_nodes(const struct calls *calls, const struct reader *reader, cJSON *to)
{
	cJSON *nodes = need(cJSON_AddArrayToObject(to, "nodes"));
	int64_t least = sum_of_roots(calls, false) / SMALLEST, least_device = sum_of_roots(calls, true) / SMALLEST;
	int *places = need(calloc(calls->count, sizeof *places)); /* in the page; -1: the root, or left out */
	struct page_names names;
	int written = 0;

	page_names_init(&names, reader);
	places[0] = -1;
	for (size_t i = 1; i < calls->count; i++) {
		const struct calls_node *node = &calls->nodes[i];
		bool orphan = node->parent && places[node->parent] < 0;

		places[i] = -1;
		if (orphan || written == MOST_NODES || (node->total <= least && node->device_total <= least_device))
			continue;
		const double values[] = {
			places[node->parent], (double)page_name(&names, node->name),
			(double)node->calls,  (double)node->total,
			(double)node->self,   (double)node->device_total,
		};
		cJSON_AddItemToArray(nodes, need(cJSON_CreateDoubleArray(values, sizeof values / sizeof *values)));
		places[i] = written++;
	}
	need(cJSON_AddNumberToObject(to, "left_out", (double)(calls->count - 1 - (size_t)written)));
	cJSON_AddItemToObject(to, "names", page_names_array(&names));
	need(cJSON_AddBoolToObject(to, "shortened", names.shortened));
	page_names_deinit(&names);
	free(places);
}

cJSON *page_tree(const struct reader *reader)
{
	cJSON *to = need(cJSON_CreateObject());
	struct calls calls;

	need(cJSON_AddBoolToObject(to, "device", report_attributed(reader)));
	calls_read(&calls, reader, &(struct calls_options){0});
	write_nodes(&calls, reader, to);
	calls_free(&calls);
	return to;
}
