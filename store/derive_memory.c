/* derive_memory.c - see derive_memory.h. All of it is done in sorts of SQLite's, which spill to disk. total() does not overflow, whatever a
 * hostile agent wrote. No locks. */
#include "derive_memory.h"
#include "fold_rule.h"

_Static_assert(ALLOCATION_TAKEN == 1 && ALLOCATION_GIVEN_BACK == 2 && ALLOCATION_KNOWS_BYTES == 1 &&
		       ALLOCATION_KNOWS_TOTALS == 2,
	       "as the statements below have them");

/* Each record with what comes next of its address: a block lives until then. Address 0: nobody knows which block it is, so it holds
 * nothing. bytes: with its sign, 0 where it is not known. */
#define MEM_SQL                                                                                                        \
	"CREATE TEMP TABLE mem (time INTEGER, step INTEGER, parent INTEGER, type INTEGER, device INTEGER, "            \
	"taken INTEGER, known INTEGER, bytes INTEGER, total INTEGER, reserved INTEGER, until INTEGER, owner INTEGER);" \
	"INSERT INTO mem SELECT time, step, parent, device_type, device, operation = 1, known, "                       \
	"CASE WHEN NOT known & 1 THEN 0 WHEN operation = 1 THEN bytes ELSE -bytes END, total, reserved, "              \
	"iif(address = 0, time, lead(time) OVER (PARTITION BY device_type, device, address ORDER BY time, rowid)), "   \
	"NULL "                                                                                                        \
	"FROM framework_allocations ORDER BY time, rowid;"

/* The operators and ranges in which there are any, with those around them. A range has no name here, as only operators are one call with
 * their parent. owner: the innermost operator, itself or around. */
#define CALLS_SQL                                                                                                       \
	"CREATE TEMP TABLE calls (id INTEGER PRIMARY KEY, parent INTEGER, name INTEGER, step INTEGER, thread INTEGER, " \
	"flags INTEGER, self INTEGER, depth INTEGER, stack INTEGER, phase TEXT, owner INTEGER, folded INTEGER, "        \
	"self_cpu INTEGER, self_device INTEGER, cpu INTEGER, device INTEGER);"                                          \
	"CREATE TEMP TABLE around (id INTEGER PRIMARY KEY, parent INTEGER, name INTEGER, step INTEGER, thread "         \
	"INTEGER, flags INTEGER, depth INTEGER, stack INTEGER, phase TEXT, owner INTEGER);"                             \
	"INSERT OR IGNORE INTO around SELECT id, parent, name, step, thread, flags, depth, stack, "                     \
	"CASE scope WHEN 1 THEN 'backward' END, id FROM operators WHERE id IS NOT NULL;"                                \
	"INSERT OR IGNORE INTO around SELECT r.id, r.parent, NULL, r.step, r.thread, r.flags, r.depth, NULL, "          \
	"CASE WHEN s.text GLOB 'Optimizer.step#*' THEN 'optimizer' END, NULL "                                          \
	"FROM ranges r LEFT JOIN strings s ON s.id = r.name WHERE r.id IS NOT NULL AND r.source <> 2;"                  \
	"WITH RECURSIVE up(id) AS (SELECT DISTINCT parent FROM mem WHERE parent IS NOT NULL UNION "                     \
	"SELECT a.parent FROM up JOIN around a ON a.id = up.id WHERE a.parent IS NOT NULL) "                            \
	"INSERT INTO calls SELECT id, parent, name, step, thread, flags, 0, depth, stack, phase, owner, 0, 0, 0, 0, "   \
	"0 FROM around WHERE id IN up;"                                                                                 \
	"DROP TABLE around; CREATE INDEX temp.calls_depth ON calls (depth);"

#define SELF_SQL                                                                                                       \
	"UPDATE calls SET self_cpu = m.cpu, self_device = m.device, cpu = m.cpu, device = m.device FROM "              \
	"(SELECT parent, CAST(total((type = 0) * bytes) AS INTEGER) AS cpu, CAST(total((type <> 0) * bytes) AS "       \
	"INTEGER) AS device FROM mem GROUP BY parent) m WHERE m.parent = calls.id;"

/* What was taken in an operator that is one call with its parent is in the parent's sum already. */
#define FOLDED_SQL                                                                                                     \
	"WITH " FOLD_SQL("temp.calls", "temp.calls") " UPDATE calls SET folded = 1 WHERE id IN (SELECT id FROM folded);"

/* Of one depth, ?1: what it has from around it, and what it adds to that. */
#define INWARDS_SQL                                                                                                    \
	"UPDATE calls AS c SET owner = coalesce(c.owner, p.owner), phase = coalesce(c.phase, p.phase) "                \
	"FROM calls p WHERE p.id = c.parent AND c.depth = ?1"
#define OUTWARDS_SQL                                                                                                   \
	"UPDATE calls AS p SET cpu = p.cpu + c.cpu, device = p.device + c.device FROM (SELECT parent, "                \
	"CAST(total(cpu) AS INTEGER) AS cpu, CAST(total(device) AS INTEGER) AS device FROM calls "                     \
	"WHERE depth = ?1 GROUP BY parent) c WHERE p.id = c.parent"

#define TOTALS_SQL                                                                                                     \
	"UPDATE mem SET owner = (SELECT c.owner FROM calls c WHERE c.id = mem.parent);"                                \
	"CREATE TEMP TABLE counts AS SELECT o.name AS name, m.step AS step, sum(m.taken) AS taken, "                   \
	"CAST(total(m.taken * m.bytes) AS INTEGER) AS bytes, sum(NOT m.taken) AS given, sum(NOT m.known & 1) AS "      \
	"unknown, CAST(total((m.type = 0) * m.bytes) AS INTEGER) AS self_cpu, CAST(total((m.type <> 0) * m.bytes) "    \
	"AS INTEGER) AS self_device FROM mem m LEFT JOIN calls o ON o.id = m.owner GROUP BY 1, 2;"                     \
	"INSERT INTO memory_totals SELECT name, step, sum(taken), sum(bytes), sum(given), sum(unknown), "              \
	"sum(self_cpu), sum(cpu), sum(self_device), sum(device) FROM (SELECT name, step, taken, bytes, given, "        \
	"unknown, self_cpu, iif(name IS NULL, self_cpu, 0) AS cpu, self_device, iif(name IS NULL, self_device, 0) AS " \
	"device FROM counts UNION ALL SELECT name, step, 0, 0, 0, 0, 0, cpu, 0, device FROM calls WHERE owner = id "   \
	"AND NOT folded) GROUP BY name, step; DROP TABLE counts;"

/* How much is held: most around each record (before it, where it gives back), and after it. */
#define LEVELS_SQL                                                                                                     \
	"CREATE TEMP TABLE levels AS SELECT *, max(level, level - bytes) AS most FROM (SELECT time, step, type, "      \
	"device, taken, bytes, known, iif(known & 2, reserved, NULL) AS reserved, CASE WHEN known & 2 THEN total "     \
	"ELSE CAST(total(bytes) OVER (PARTITION BY type, device ORDER BY time, rowid ROWS UNBOUNDED PRECEDING) AS "    \
	"INTEGER) END AS level FROM mem ORDER BY time, rowid);"
#define STEPS_SQL                                                                                                      \
	"INSERT INTO memory_steps SELECT s.step, s.type, s.device, s.absolute, s.taken, s.bytes, s.given, "            \
	"s.given_bytes, s.unknown, e.level, p.most, p.time - (p.level < p.most), s.reserved FROM "                     \
	"(SELECT step, type, device, max(known >> 1 & 1) AS absolute, sum(taken) AS taken, CAST(total(taken * bytes) " \
	"AS INTEGER) AS bytes, sum(NOT taken) AS given, CAST(total(-(NOT taken) * bytes) AS INTEGER) AS given_bytes, " \
	"sum(NOT known & 1) AS unknown, max(reserved) AS reserved FROM levels GROUP BY step, type, device) s "         \
	"JOIN (SELECT step, type, device, level, max(rowid) FROM levels GROUP BY step, type, device) e "               \
	"ON e.step IS s.step AND e.type = s.type AND e.device = s.device "                                             \
	"JOIN (SELECT step, type, device, level, time, max(most) AS most FROM levels GROUP BY step, type, device) p "  \
	"ON p.step IS s.step AND p.type = s.type AND p.device = s.device;"

#define ALIVE "m.taken AND m.type = p.device_type AND m.device = p.device"
#define HOLDERS_SQL                                                                                                    \
	"CREATE TEMP TABLE peaks AS SELECT device_type, device, max(peak) AS peak, peak_time AS time, absolute FROM "  \
	"memory_steps GROUP BY device_type, device;"                                                                   \
	"INSERT INTO memory_holders SELECT m.type, m.device, o.name, o.stack, c.phase, m.step, count(*), "             \
	"CAST(total(m.bytes) AS INTEGER) FROM peaks p JOIN mem m ON " ALIVE                                            \
	" AND m.time <= p.time AND (m.until IS NULL OR m.until > p.time) LEFT JOIN calls c ON c.id = m.parent "        \
	"LEFT JOIN calls o ON o.id = m.owner GROUP BY 1, 2, 3, 4, 5, 6;"                                               \
	"INSERT INTO memory_holders SELECT p.device_type, p.device, NULL, NULL, NULL, NULL, 0, p.peak - "              \
	"coalesce(h.bytes, 0) FROM peaks p LEFT JOIN (SELECT device_type, device, CAST(total(bytes) AS INTEGER) AS "   \
	"bytes FROM memory_holders GROUP BY 1, 2) h ON h.device_type = p.device_type AND h.device = p.device WHERE "   \
	"p.absolute AND NOT EXISTS (SELECT 1 FROM framework_allocations WHERE address = 0); DROP TABLE peaks;"
#define LEAKS_SQL                                                                                                      \
	"INSERT INTO memory_leaks SELECT m.type, m.device, o.name, o.stack, c.phase, count(*), "                       \
	"CAST(total(m.bytes) AS INTEGER), count(DISTINCT m.step) FROM mem m LEFT JOIN calls c ON c.id = m.parent "     \
	"LEFT JOIN calls o ON o.id = m.owner WHERE m.taken AND m.until IS NULL AND m.step <= "                         \
	"(SELECT max(step) FROM steps) - 2 GROUP BY 1, 2, 3, 4, 5;"

static bool any(struct store *store)
{
	sqlite3_stmt *statement = store_prepare(store, "SELECT 1 FROM framework_allocations LIMIT 1");
	bool found = statement && sqlite3_step(statement) == SQLITE_ROW;
	sqlite3_finalize(statement);
	return found;
}

/* Runs a statement for each depth that there is, from the outermost on or the other way round. */
static void each_depth(struct store *store, const char *order, const char *sql)
{
	sqlite3_stmt *depths = store_prepare(store, order), *one = store_prepare(store, sql);
	while (depths && one && !store_over(store) && sqlite3_step(depths) == SQLITE_ROW) {
		sqlite3_bind_int64(one, 1, sqlite3_column_int64(depths, 0));
		store_step(store, one);
	}
	sqlite3_finalize(depths);
	sqlite3_finalize(one);
}

void derive_memory(struct store *store)
{
	if (store->error || !any(store))
		return;
	store_doing(store, "adding up memory");
	store_run(store, MEM_SQL CALLS_SQL SELF_SQL FOLDED_SQL
		  "CREATE TEMP TABLE depths AS SELECT DISTINCT depth FROM calls ORDER BY depth");
	each_depth(store, "SELECT depth FROM depths ORDER BY depth", INWARDS_SQL);
	each_depth(store, "SELECT depth FROM depths ORDER BY depth DESC", OUTWARDS_SQL);
	store_run(store, TOTALS_SQL LEVELS_SQL STEPS_SQL HOLDERS_SQL LEAKS_SQL
		  "DROP TABLE levels; DROP TABLE depths; DROP TABLE calls; DROP TABLE mem");
}
