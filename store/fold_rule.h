/* fold_rule.h - the rule by which an operator is one call with its parent, as in torch.profiler's tables: it is its
 * parent's only child and has its parent's name (a dispatcher that comes back to the same operator). Chains fold into
 * their head. Children are operators and ranges of the same thread, with the parent that their records state. A
 * record that another thread closed is neither parent nor child. A range of NVTX's starts and ends is on no stack.
 *
 * The rule stands here in three forms: for records that go by (fold.c, frames.c), for rows in memory (memory_calls.c,
 * client/report/folded.c), and for rows of a capture file (derive_totals.c, the client's views).
 * tests/unit/test_store_fold.c compares the first and the last with a reference. No locks. */
#ifndef PROFD_STORE_FOLD_RULE_H
#define PROFD_STORE_FOLD_RULE_H

#include "proto/events.h"

#include <stdbool.h>
#include <stdint.h>

/* One call. Calls that were folded into it are part of `self`. */
struct fold_call {
	uint32_t name, step;
	uint64_t duration, self;
};

/* Called once for each call, as soon as that is decided. */
typedef void fold_decided(void *context, const struct fold_call *call);

/* The children of one record, in the order of their ends. The first one waits until it is known whether there is
 * another. */
struct fold_children {
	struct fold_call first;
	bool any, waits;
};

/* The child that waits is a call of its own. */
static inline void fold_release(struct fold_children *children, fold_decided *decided, void *context)
{
	if (children->waits)
		decided(context, &children->first);
	children->waits = false;
}

/* A child has ended. `call`: NULL for a range. */
static inline void fold_child(struct fold_children *children, const struct fold_call *call, fold_decided *decided,
			      void *context)
{
	fold_release(children, decided, context);
	if (call && children->any) {
		decided(context, call);
	} else if (call) {
		children->first = *call;
		children->waits = true;
	}
	children->any = true;
}

/* The parent of these children has ended; `parent` is its call. If it and its only child are one call, it takes over
 * the child's own time. */
static inline void fold_parent(struct fold_children *children, struct fold_call *parent)
{
	if (!children->waits || !parent->name || children->first.name != parent->name)
		return;
	parent->self += children->first.self;
	children->waits = false;
}

/* For rows of a file in memory, once each row knows how many children it has. */
struct fold_row {
	int64_t name, thread; /* name 0: a range, or a file that lacks it */
	uint32_t children;
	bool apart; /* neither parent nor child */
};

static inline bool fold_row_is_folded(const struct fold_row *row, const struct fold_row *parent)
{
	return row->name && row->name == parent->name && row->thread == parent->thread && !row->apart &&
	       !parent->apart && parent->children == 1;
}

/* Common table expressions for the rows that are one call with their parent. The last one, `folded`, has their id,
 * parent, self, thread and step. `pair` has child and parent of one name; `crowd` has the parents with another child.
 * `rows`: a table with all operators that matter. `parents`: the same table, or one with one row for each id. "+"
 * makes SQLite find a parent by its id. */
#define FOLD_SQL_FLAG_ASYNC "2"
#define FOLD_SQL_NO_STACK "2"
_Static_assert(EVENT_FLAG_ASYNC == 2 && RANGE_SOURCE_NVTX_START_END == 2, "as the statement below has them");
#define FOLD_SQL(rows, parents)                                                                                        \
	"pair AS MATERIALIZED (SELECT c.id AS id, c.parent AS parent, c.self AS self, c.thread AS thread, "            \
	"c.step AS step FROM " rows " c JOIN " parents " p ON p.id = c.parent "                                        \
	"WHERE +p.name = +c.name AND +p.thread = +c.thread "                                                           \
	"AND c.id IS NOT NULL AND NOT (c.flags | p.flags) & " FOLD_SQL_FLAG_ASYNC "), "                                \
	"crowd AS MATERIALIZED (SELECT parent FROM ("                                                                  \
	"SELECT parent FROM operators WHERE parent IN (SELECT parent FROM pair) "                                      \
	"AND NOT flags & " FOLD_SQL_FLAG_ASYNC " UNION ALL "                                                           \
	"SELECT parent FROM ranges WHERE parent IN (SELECT parent FROM pair) "                                         \
	"AND NOT flags & " FOLD_SQL_FLAG_ASYNC " AND source <> " FOLD_SQL_NO_STACK ") "                                \
	"GROUP BY parent HAVING count(*) > 1), "                                                                       \
	"folded AS MATERIALIZED (SELECT id, parent, self, thread, step FROM pair "                                     \
	"WHERE parent NOT IN (SELECT parent FROM crowd))"

/* Use it after FOLD_SQL, in WITH RECURSIVE: for each folded row, `path` has the head of its chain, which is the
 * call. */
#define FOLD_SQL_PATH                                                                                                  \
	"path (head, id, self) AS (SELECT parent, id, self FROM folded WHERE parent NOT IN (SELECT id FROM folded) "   \
	"UNION ALL SELECT path.head, f.id, f.self FROM path JOIN folded f ON f.parent = path.id)"

#endif
