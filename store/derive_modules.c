/* derive_modules.c - see derive_modules.h. A frame that calls a module has the module's name and class. The frames of
 * its callers, whose numbers are smaller, tell which module it is. No locks. */
#include "derive_modules.h"
#include "derive_memory.h"
#include "memory_calls.h"
#include "rows.h"

#include "proto/base/memory.h"
#include "proto/events.h"
#include "proto/limits.h"

#include <errno.h>
#include <string.h>

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

/* A frame that waits until the module of its caller is known. */
struct waiting {
	uint32_t id;
	int64_t name, class;
};

struct work {
	uint32_t modules[LIMIT_STACKS + 1]; /* by a frame's id: the innermost module around it; 0: none */
	bool placed[LIMIT_STACKS + 1];
	struct waiting waiting[LIMIT_STACKS]; /* the innermost first */
};

struct tree {
	struct work *work;
	sqlite3_stmt *add, *find, *frame;
};

/* The id of the module; 0: it cannot be found or added. */
static uint32_t module_of(const struct tree *tree, int64_t parent, int64_t name, int64_t class)
{
	bind(tree->add, parent, name, class);
	if (sqlite3_step(tree->add) != SQLITE_DONE)
		return 0;
	bind(tree->find, parent, name, class);
	return sqlite3_step(tree->find) == SQLITE_ROW ? (uint32_t)sqlite3_column_int64(tree->find, 0) : 0;
}

static void place(const struct tree *tree, int64_t id)
{
	struct work *w = tree->work;
	size_t count = 0;
	while (id >= 1 && id <= LIMIT_STACKS && !w->placed[id]) {
		struct waiting *item = &w->waiting[count++];
		*item = (struct waiting){.id = (uint32_t)id};
		w->placed[id] = true;
		sqlite3_reset(tree->frame);
		sqlite3_bind_int64(tree->frame, 1, id);
		if (sqlite3_step(tree->frame) != SQLITE_ROW)
			break;
		int64_t parent = sqlite3_column_int64(tree->frame, 0);
		item->name = sqlite3_column_int64(tree->frame, 1);
		item->class = sqlite3_column_int64(tree->frame, 2);
		id = parent < id ? parent : 0;
	}
	uint32_t outer = id >= 1 && id <= LIMIT_STACKS ? w->modules[id] : 0;
	while (count--) {
		const struct waiting *item = &w->waiting[count];
		if (item->class)
			outer = module_of(tree, outer, item->name, item->class);
		w->modules[item->id] = outer;
	}
}

static void place_each(struct store *store, const struct tree *tree, const char *stacks)
{
	sqlite3_stmt *read = store_prepare(store, stacks);
	while (read && !store_over(store) && sqlite3_step(read) == SQLITE_ROW)
		place(tree, sqlite3_column_int64(read, 0));
	sqlite3_finalize(read);
}

static void write_placed(struct store *store, const struct work *work)
{
	struct rows rows;
	rows_begin(&rows, store, "stack_modules", 2);
	for (int64_t id = 1; id <= LIMIT_STACKS; id++)
		if (work->modules[id])
			rows_add(&rows, (int64_t[]){id, work->modules[id]});
	rows_end(&rows);
}

/* Modules are numbered in the order in which steps call them, which is the order of the model. The numbers of frames
 * do not have that order: they begin when the recording was prepared, which may be in the middle of a forward. */
#define CALLED_SQL                                                                                                     \
	"SELECT stack FROM operators WHERE stack > 0 AND backward IS NULL AND step IS NOT NULL GROUP BY stack ORDER "  \
	"BY min(start)"
#define ALL_SQL "SELECT id FROM stacks ORDER BY id"

#define SUMS_SQL(device)                                                                                               \
	"INSERT INTO module_totals SELECT m.module, o.step, sum(o.parent IS NULL OR o.parent IN (SELECT id FROM "      \
	"ranges)), sum(CASE WHEN o.backward IS NULL THEN o.self ELSE 0 END), sum(CASE WHEN o.backward IS NOT NULL "    \
	"THEN o.self ELSE 0 END), " device " GROUP BY 1, 2"
#define FROM_SQL "FROM operators o JOIN stack_modules m ON m.stack = o.stack"
#define CALLS_SQL                                                                                                      \
	"WITH RECURSIVE calls(module, step, entered, n) AS (SELECT m.module, o.step, o.entered, count(*) " FROM_SQL    \
	" WHERE o.entered > 0 GROUP BY 1, 2, 3 UNION ALL SELECT m.parent, c.step, c.entered - 1, c.n FROM calls c "    \
	"JOIN nn_modules m ON m.id = c.module WHERE c.entered > 1 AND m.parent > 0) INSERT INTO module_totals SELECT " \
	"module, step, 0, 0, 0, NULL, NULL, sum(n), NULL, NULL FROM calls GROUP BY 1, 2"
#define WITH_DEVICE                                                                                                    \
	"sum(CASE WHEN o.backward IS NULL THEN coalesce(d.self, 0) ELSE 0 END), sum(CASE WHEN o.backward IS NOT NULL " \
	"THEN coalesce(d.self, 0) ELSE 0 END), NULL, NULL, NULL " FROM_SQL " LEFT JOIN range_devices d ON d.id = o.id"
#define WITHOUT_DEVICE "NULL, NULL, NULL, NULL, NULL " FROM_SQL

/* Adds up by module first, so that few rows are written. */
static void write_taken(struct store *store, const struct work *work, const struct numbered *taken)
{
	struct numbered sums = {.bytes = sizeof(struct memory_of_stack), .memory = store->memory};
	struct rows rows;
	for (uint32_t i = 0; i < taken->count; i++) {
		const struct memory_of_stack *stack = numbered_at(taken, i);
		int64_t id = taken->keys[i].a;
		uint32_t module = id >= 1 && id <= LIMIT_STACKS ? work->modules[id] : 0;
		struct memory_of_stack *sum = module ? numbered_add(&sums, module, taken->keys[i].b, 0) : NULL;
		if (sum) {
			sum->cpu = memory_plus(sum->cpu, stack->cpu);
			sum->device = memory_plus(sum->device, stack->device);
		} else if (module) {
			store_set_error(store, -ENOMEM, "there was no memory to add up the memory of modules");
			break;
		}
	}
	rows_begin(&rows, store, "module_totals", 10);
	for (uint32_t i = 0; i < sums.count && !store->error; i++) {
		const struct memory_of_stack *sum = numbered_at(&sums, i);
		rows_add(&rows, (int64_t[]){sums.keys[i].a, sums.keys[i].b, 0, 0, 0, ROWS_NULL, ROWS_NULL, ROWS_NULL,
					    sum->cpu, sum->device});
	}
	rows_end(&rows);
	numbered_deinit(&sums);
}

static void number(struct store *store, const struct numbered *taken)
{
	struct tree tree = {
		memory_get(store->memory, sizeof *tree.work),
		store_prepare(store, "INSERT OR IGNORE INTO nn_modules (parent, name, class) VALUES (?1, ?2, ?3)"),
		store_prepare(store, "SELECT id FROM nn_modules WHERE parent = ?1 AND name = ?2 AND class = ?3"),
		store_prepare(store,
			      "SELECT parent, coalesce(module, 0), coalesce(class, 0) FROM stacks WHERE id = ?1"),
	};
	if (!tree.work)
		store_set_error(store, -ENOMEM, "there was no memory to add up modules");
	else if (tree.add && tree.find && tree.frame) {
		memset(tree.work, 0, sizeof *tree.work);
		place_each(store, &tree, CALLED_SQL);
		place_each(store, &tree, ALL_SQL);
		write_placed(store, tree.work);
		if (taken && taken->count)
			write_taken(store, tree.work, taken);
	}
	sqlite3_finalize(tree.add);
	sqlite3_finalize(tree.find);
	sqlite3_finalize(tree.frame);
	memory_put(store->memory, tree.work, tree.work ? sizeof *tree.work : 0);
}

void derive_modules(struct store *store, bool device, const struct numbered *taken)
{
	if (store->error || !any_module(store))
		return;
	store_doing(store, "adding up modules");
	number(store, taken);
	if (!store->error)
		store_run(store, CALLS_SQL);
	if (!store->error)
		store_run(store, device ? SUMS_SQL(WITH_DEVICE) : SUMS_SQL(WITHOUT_DEVICE));
}
