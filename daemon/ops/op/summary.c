/* summary.c - op "summary": the summary of a capture, computed when it was finished.
 *
 * op "summary"  {"capture_id"} -> {"row":"summary", SUMMARY}, end. Computed once, when the capture was finished.
 */
#include "daemon/capture/capture.h"
#include "daemon/capture/row.h"
#include "daemon/catalogue/captures.h"
#include "daemon/catalogue/catalogue.h"
#include "daemon/core/connection.h"
#include "daemon/core/reply.h"
#include "daemon/ops/get.h"
#include "daemon/ops/ops.h"

static void look(struct get *get)
{
	get->text = catalogue_read_summary(catalogue_of(get->server), get->number);
}

/* A capture that failed has no file: only its facts are known. */
static cJSON *empty_summary(void)
{
	static const char *const lists[] = {"steps", "operators", "ranges", "losses", "collectors"};
	cJSON *row = cJSON_CreateObject();
	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
		cJSON_AddArrayToObject(row, lists[i]);
	cJSON_AddObjectToObject(row, "cost");
	return row;
}

static void send_summary(struct conn *conn, struct get *get)
{
	const struct capture_facts *facts = &get->facts;
	cJSON *row = get->text ? cJSON_Parse(get->text) : NULL;
	if (!row)
		row = empty_summary();
	cJSON *cost = cJSON_GetObjectItem(row, "cost");
	if (cost && facts->step_after) {
		cJSON_DeleteItemFromObject(cost, "step_after_ns");
		cJSON_AddNumberToObject(cost, "step_after_ns", (double)facts->step_after);
	}
	cJSON_AddStringToObject(row, "row", "summary");
	capture_describe(conn->server, conn->pid_namespace, facts, cJSON_AddObjectToObject(row, "capture"));
	conn_row(conn, row);
	conn_end(conn, NULL);
}

static void serve(struct conn *conn, struct request *request, const char *packet, size_t n)
{
	static const struct get_kind kind = {"summary", look, send_summary};
	(void)request, (void)packet, (void)n;
	get_serve(conn, &kind);
}

const struct op op_summary = {"summary", "shows a capture's summary", get_parse, serve, NULL};
