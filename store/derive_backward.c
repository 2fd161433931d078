/* derive_backward.c - see derive_backward.h. Autograd runs on threads of its own, where no Python is, or below the line that calls
 * backward(): neither says what the work is for. The number of the node does: each operator of the forward carries the number that its
 * thread's next node will have. Several may carry the same; it is the last of them that made the node, as those that come later carry the
 * next number. (torch.profiler takes the first one; in its traces what evaluates a node has the node's number, too, and that of its thread.) A node that was made in a backward has no line of its own. No locks. */
#include "derive_backward.h"
#include "proto/events.h"

#define FORWARD_SQL                                                                                                                     \
	"CREATE TEMP TABLE forward_stacks (sequence INTEGER, number INTEGER, stack INTEGER, PRIMARY KEY (sequence, "                    \
	"number)) WITHOUT ROWID;"                                                                                                       \
	"INSERT OR IGNORE INTO forward_stacks SELECT o.sequence, t.torch_id, o.stack FROM (SELECT sequence, thread, "                   \
	"stack, max(start) FROM operators WHERE scope <> 1 AND forward_thread = 0 AND sequence >= 0 GROUP BY sequence, thread) o JOIN " \
	"threads t ON t.thread = o.thread WHERE t.torch_id <> 0 AND o.stack IS NOT NULL;"
#define NODES_SQL                                                                                                      \
	"CREATE TEMP TABLE node_stacks (id INTEGER PRIMARY KEY, stack INTEGER);"                                       \
	"INSERT OR IGNORE INTO node_stacks SELECT n.id, f.stack FROM operators n JOIN forward_stacks f ON "            \
	"f.sequence = n.sequence AND f.number = n.forward_thread WHERE n.backward = n.id;"
#define UPDATE_SQL                                                                                                     \
	"UPDATE operators SET stack = (SELECT stack FROM node_stacks n WHERE n.id = operators.backward) WHERE "        \
	"backward IS NOT NULL;"

bool derive_has_operator_stacks(struct store *store)
{
	_Static_assert(COLLECTOR_OPERATOR_STACKS == 11, "as the statement below has it");
	sqlite3_stmt *statement = store_prepare(store, "SELECT 1 FROM steps WHERE collectors & 2048 LIMIT 1");
	bool has = statement && sqlite3_step(statement) == SQLITE_ROW;
	sqlite3_finalize(statement);
	return has;
}

void derive_backward(struct store *store)
{
	store_run(store, FORWARD_SQL NODES_SQL UPDATE_SQL "DROP TABLE node_stacks; DROP TABLE forward_stacks");
}
