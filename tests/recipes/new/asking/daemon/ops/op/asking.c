/* asking.c - op "asking": a row that says that the daemon answers. The test of the recipes.
 *
 * op "asking"   -> {"row":"asking","text"}, end. */
#include "daemon/core/reply.h"
#include "daemon/ops/ops.h"

static void serve(struct conn *conn, struct request *request, const char *packet, size_t n)
{
	cJSON *row = conn_row_new("asking");
	(void)request, (void)packet, (void)n;
	cJSON_AddStringToObject(row, "text", "the daemon answers");
	conn_row(conn, row);
	conn_end(conn, NULL);
}

const struct op op_asking = {"asking", "answers, as a test", NULL, serve, NULL};
