/* rm.c - op "rm": finished captures are deleted.
 *
 * op "rm"       {"capture_ids":[ID..], "keep":bool (false; true: a snapshot's --keep asks for it)} -> {"row":"removed",
 *                "capture_id"} | {"row":"kept","capture_id","error":{...}} for each, end.
 */
#include "daemon/ops/change.h"
#include "daemon/catalogue/deleted.h"
#include "daemon/catalogue/usage.h"
#include "daemon/core/server.h"
#include "daemon/ops/ops.h"
#include "daemon/ops/parse.h"
#include "daemon/ops/request.h"

static void parse_rm(struct parse *parse, struct request *request, const cJSON *object)
{
	request->keep = parse_truth(parse, object, "keep");
	parse_request_ids(parse, request, object);
}

static int apply(struct catalogue *catalogue, uint64_t number, uid_t by, bool keep)
{
	return catalogue_remove(catalogue, number, &by,
				keep ? "`profd snapshot --keep` made room for newer ones"
				     : "deleted by hand with `profd rm`");
}

static void count(struct server *server, const struct change *change)
{
	usage_remove(usage_of(server), change->uid, 1, change->bytes);
	counters_deleted(&server->counters, "rm", 1, change->bytes);
	if (change->was_pinned)
		usage_pin(usage_of(server), change->uid, 1, change->bytes, false);
}

static void serve(struct conn *conn, struct request *request, const char *packet, size_t n)
{
	static const struct change_kind kind = {"rm", "removed", "deleted", apply, count};
	(void)request, (void)packet, (void)n;
	change_serve(conn, &kind);
}

const struct op op_rm = {"rm", "deletes captures", parse_rm, serve, NULL};
