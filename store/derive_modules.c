/* derive_modules.c - see derive_modules.h. A frame that is a call of a module carries its name and class; which module that is follows from
 * the frames outside of it. The number of a frame's caller is smaller than its own, so that one pass does. No locks. */
#include "derive_modules.h"
#include "rows.h"

#include "proto/base/memory.h"
#include "proto/events.h"
#include "proto/limits.h"

#include <errno.h>

static bool any_module(struct store *store)
{
	sqlite3_stmt *statement = store_prepare(store, "SELECT 1 FROM stacks WHERE class IS NOT NULL LIMIT 1");
	bool any = statement && sqlite3_step(statement) == SQLITE_ROW;
	sqlite3_finalize(statement);
	return any;
}

static void bind(sqlite3_stmt *statement, int64_t parent, int64_t name, int64_t class)
{
	sqlite3_reset(statement);
	sqlite3_bind_int64(statement, 1, parent);
	sqlite3_bind_int64(statement, 2, name);
	sqlite3_bind_int64(statement, 3, class);
}

/* Statements that add a module and look for it. */
struct tree {
	sqlite3_stmt *add, *find;
};

/* The id of the module; 0 where it cannot be had. */
static uint32_t module_of(const struct tree *tree, int64_t parent, int64_t name, int64_t class)
{
	bind(tree->add, parent, name, class);
	if (sqlite3_step(tree->add) != SQLITE_DONE)
		return 0;
	bind(tree->find, parent, name, class);
	return sqlite3_step(tree->find) == SQLITE_ROW ? (uint32_t)sqlite3_column_int64(tree->find, 0) : 0;
}

/* modules[] of each stack's innermost one, by the stack's id; 0: none. */
static void place(struct store *store, uint32_t *modules, const struct tree *tree)
{
	struct rows rows;
	rows_begin(&rows, store, "stack_modules", 2);
	sqlite3_stmt *read =
		store_prepare(store, "SELECT id, parent, coalesce(module, 0), coalesce(class, 0) FROM stacks "
				     "ORDER BY id");
	while (read && !store_over(store) && sqlite3_step(read) == SQLITE_ROW) {
		int64_t id = sqlite3_column_int64(read, 0), parent = sqlite3_column_int64(read, 1);
		if (id < 1 || id > LIMIT_STACKS)
			continue;
		uint32_t outer = parent > 0 && parent < id ? modules[parent] : 0;
		int64_t name = sqlite3_column_int64(read, 2), class = sqlite3_column_int64(read, 3);
		modules[id] = class ? module_of(tree, outer, name, class) : outer;
		if (modules[id])
			rows_add(&rows, (int64_t[]){id, modules[id]});
	}
	sqlite3_finalize(read);
	rows_end(&rows);
}

#define SUMS_SQL(device)                                                                                               \
	"INSERT INTO module_totals SELECT m.module, o.step, sum(o.parent IS NULL OR o.parent IN (SELECT id FROM "      \
	"ranges)), sum(CASE WHEN o.backward IS NULL THEN o.self ELSE 0 END), sum(CASE WHEN o.backward IS NOT NULL "    \
	"THEN o.self ELSE 0 END), " device " GROUP BY 1, 2"
#define FROM_SQL "FROM operators o JOIN stack_modules m ON m.stack = o.stack"
#define CALLS_SQL                                                                                                      \
	"WITH RECURSIVE calls(module, step, entered, n) AS (SELECT m.module, o.step, o.entered, count(*) " FROM_SQL    \
	" WHERE o.entered > 0 GROUP BY 1, 2, 3 UNION ALL SELECT m.parent, c.step, c.entered - 1, c.n FROM calls c "    \
	"JOIN nn_modules m ON m.id = c.module WHERE c.entered > 1 AND m.parent > 0) INSERT INTO module_totals SELECT " \
	"module, step, 0, 0, 0, NULL, NULL, sum(n) FROM calls GROUP BY 1, 2"
#define WITH_DEVICE                                                                                                    \
	"sum(CASE WHEN o.backward IS NULL THEN coalesce(d.self, 0) ELSE 0 END), sum(CASE WHEN o.backward IS NOT NULL " \
	"THEN coalesce(d.self, 0) ELSE 0 END), NULL " FROM_SQL " LEFT JOIN range_devices d ON d.id = o.id"
#define WITHOUT_DEVICE "NULL, NULL, NULL " FROM_SQL

void derive_modules(struct store *store, bool device)
{
	const size_t bytes = (LIMIT_STACKS + 1) * sizeof(uint32_t);
	if (store->error || !any_module(store))
		return;
	store_doing(store, "adding up modules");
	uint32_t *modules = memory_get(store->memory, bytes);
	struct tree tree = {
		store_prepare(store, "INSERT OR IGNORE INTO nn_modules (parent, name, class) VALUES (?1, ?2, ?3)"),
		store_prepare(store, "SELECT id FROM nn_modules WHERE parent = ?1 AND name = ?2 AND class = ?3"),
	};
	if (!modules)
		store_set_error(store, -ENOMEM, "there was no memory to add up modules");
	else if (tree.add && tree.find)
		place(store, modules, &tree);
	sqlite3_finalize(tree.add);
	sqlite3_finalize(tree.find);
	memory_put(store->memory, modules, modules ? bytes : 0);
	if (!store->error)
		store_run(store, CALLS_SQL);
	if (!store->error)
		store_run(store, device ? SUMS_SQL(WITH_DEVICE) : SUMS_SQL(WITHOUT_DEVICE));
}
