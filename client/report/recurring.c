/* recurring.c - see recurring.h. */
#include "recurring.h"
#include "query.h"

#include "client/ui/text.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

/* A name that came more often than this in the window is no step, and its calls would take long to sort. */
#define CALLS_MAX "50000"

/* From a table: name, number of calls, first start, mean of the times between calls, mean of their squares. For a
 * name on several threads, the thread with the most calls counts. */
#define RECURRING_SQL(table, which)                                                                                    \
	"WITH outer_ones AS (SELECT r.name, r.thread, r.start FROM " table " r LEFT JOIN " table                       \
	" p ON p.id = r.parent WHERE r.name IN (SELECT name FROM " table " WHERE " which                               \
	" GROUP BY name HAVING count(*) BETWEEN 3 AND " CALLS_MAX ") AND p.name IS NOT r.name), "                      \
	"gaps AS (SELECT name, thread, start, start - lag(start) OVER (PARTITION BY name, thread ORDER BY start) AS "  \
	"gap FROM outer_ones), each AS (SELECT name, count(*) AS calls, min(start) AS first, avg(gap) AS period, "     \
	"avg(gap * 1.0 * gap) AS square FROM gaps GROUP BY name, thread HAVING count(*) >= 3) "                        \
	"SELECT s.text, max(e.calls), e.first, e.period, e.square FROM each e JOIN strings s ON s.id = e.name "        \
	"GROUP BY e.name"

static bool begins(const char *name, const char *with)
{
	return strncmp(name, with, strlen(with)) == 0;
}

static enum recurring_kind kind_of_range(const char *name)
{
	static const char next[] = "__next__";
	size_t n = strlen(name);

	if (begins(name, "Optimizer.step#"))
		return RECURRING_OPTIMIZER;
	if (begins(name, "enumerate(DataLoader)#") && n >= sizeof next && strcmp(name + n - sizeof next + 1, next) == 0)
		return RECURRING_BATCH;
	return RECURRING_RANGE;
}

static void collect(const struct reader *reader, const char *sql, bool operators, struct recurrings *to)
{
	sqlite3_stmt *row = report_prepare(reader, sql);

	while (report_next(reader, row)) {
		const char *name = (const char *)sqlite3_column_text(row, 0);
		struct recurring *one;

		if (!name || !*name)
			continue;
		to->list = need(realloc(to->list, (to->count + 1) * sizeof *to->list));
		one = &to->list[to->count++];
		*one = (struct recurring){.kind = operators ? RECURRING_OPERATOR : kind_of_range(name),
					  .name = need(strdup(name)),
					  .calls = sqlite3_column_int64(row, 1),
					  .first = sqlite3_column_int64(row, 2),
					  .period = sqlite3_column_double(row, 3),
					  .square = sqlite3_column_double(row, 4)};
	}
}

/* How many names come as often as that, or a whole number of times as often? The window may begin or end inside of an
 * iteration, so a large multiple of a few calls proves nothing. */
static size_t explained(const struct recurrings *all, int64_t calls)
{
	size_t count = 0;

	for (size_t i = 0; i < all->count; i++) {
		int64_t n = all->list[i].calls, k = (n + calls / 2) / calls;

		count += k > 0 && llabs(n - k * calls) <= k && (k == 1 || 3 * k <= calls);
	}
	return count;
}

/* Finds the usual number of calls: most names come once, or several times, in each iteration. */
static void find_usual(struct recurrings *all)
{
	size_t best = 0;

	for (size_t i = 0; i < all->count; i++) {
		int64_t calls = all->list[i].calls;
		size_t count = explained(all, calls);

		if (count > best || (count == best && calls > all->usual)) {
			best = count;
			all->usual = calls;
		}
	}
}

/* If there is an Optimizer.step, nobody takes zero_grad for the step. But torch.compile may leave only zero_grad of
 * an optimizer. */
static void drop_zero_grads(struct recurrings *all)
{
	bool has_steps = false;
	size_t kept = 0;

	for (size_t i = 0; i < all->count; i++)
		has_steps |= all->list[i].kind == RECURRING_OPTIMIZER;
	for (size_t i = 0; i < all->count; i++) {
		if (has_steps && begins(all->list[i].name, "Optimizer.zero_grad#"))
			free(all->list[i].name);
		else
			all->list[kept++] = all->list[i];
	}
	all->count = kept;
}

void recurring_find(const struct reader *reader, struct recurrings *ret)
{
	*ret = (struct recurrings){0};
	collect(reader, RECURRING_SQL("ranges", "1"), false, ret);
	collect(reader, RECURRING_SQL("operators", "scope = 0"), true, ret);
	drop_zero_grads(ret);
	find_usual(ret);
}

void recurring_free(struct recurrings *recurrings)
{
	for (size_t i = 0; i < recurrings->count; i++)
		free(recurrings->list[i].name);
	free(recurrings->list);
}
