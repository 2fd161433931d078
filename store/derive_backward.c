/* derive_backward.c - see derive_backward.h. Autograd runs either on threads of its own, which run no Python, or
 * below the line that calls backward(). Neither tells what the work is for. The number of the node does: each
 * operator of the forward has the number that the next node of its thread will get. Several operators may have the
 * same number. The last of them made the node, since later operators have the next number. (torch.profiler takes the
 * first one. In its traces, the operator that evaluates a node has the node's number and the number of the node's
 * thread, too.) A node that was made in a backward has no line of its own. No locks. */
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
