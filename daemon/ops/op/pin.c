/* pin.c - op "pin": retention keeps finished captures.
 *
 * op "pin"      {"capture_ids":[ID..]} -> {"row":"pinned","capture_id"} | {"row":"kept","capture_id",
 *                "error":{...}} for each, end. A pinned capture is not deleted by retention; rm deletes it.
 */
#include "daemon/catalogue/deleted.h"
#include "daemon/catalogue/usage.h"
#include "daemon/ops/change.h"
#include "daemon/ops/ops.h"
#include "daemon/ops/parse.h"

static int apply(struct catalogue *catalogue, uint64_t number, uid_t by, bool keep)
{
	(void)by, (void)keep;
	return catalogue_pin(catalogue, number, true);
}

static void count(struct server *server, const struct change *change)
{
	if (!change->was_pinned)
		usage_pin(usage_of(server), change->uid, 1, change->bytes, true);
}

static void serve(struct conn *conn, struct request *request, const char *packet, size_t n)
{
	static const struct change_kind kind = {"pin", "pinned", "pinned", apply, count};
	(void)request, (void)packet, (void)n;
	change_serve(conn, &kind);
}

const struct op op_pin = {"pin", "keeps captures from being deleted by retention", parse_request_ids, serve, NULL};
