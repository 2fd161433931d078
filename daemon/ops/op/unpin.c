/* unpin.c - op "unpin": retention may delete finished captures again.
 *
 * op "unpin"    as "pin", with rows "unpinned".
 */
#include "daemon/catalogue/deleted.h"
#include "daemon/catalogue/usage.h"
#include "daemon/ops/change.h"
#include "daemon/ops/ops.h"
#include "daemon/ops/parse.h"

static int apply(struct catalogue *catalogue, uint64_t number, uid_t by, bool keep)
{
	(void)by, (void)keep;
	return catalogue_pin(catalogue, number, false);
}

static void count(struct server *server, const struct change *change)
{
	if (change->was_pinned)
		usage_pin(usage_of(server), change->uid, 1, change->bytes, false);
}

static void serve(struct conn *conn, struct request *request, const char *packet, size_t n)
{
	static const struct change_kind kind = {"unpin", "unpinned", "unpinned", apply, count};
	(void)request, (void)packet, (void)n;
	change_serve(conn, &kind);
}

const struct op op_unpin = {"unpin", "lets retention delete captures again", parse_request_ids, serve, NULL};
