/* places.c - see places.h. Two passes, over operators and over samples: a capture has no index by time, and of intervals there are few. No locks. */
#include "places.h"

#include "module_paths.h"

#include <stdlib.h>

/* Lines, and modules, of an interval that are told apart; of others the time counts, and they are not named. */
#define KINDS 16
#define INTERVALS (FINDINGS_MOST * FINDING_INTERVALS)

/* Of a line, which has as many frames as it has callers, or of a module. */
struct share {
	int64_t file, line, function, module, ns;
};

struct shares {
	struct share list[KINDS];
	size_t count;
	int64_t ns; /* of all */
};

/* By the operators that the interval names, by all that ran in it, by samples. */
enum way { NAMED, RAN, SAMPLED, WAYS };

struct looked {
	const struct finding_interval *interval;
	struct place *place;
	struct shares lines[WAYS], modules[WAYS];
};

struct search {
	struct looked list[INTERVALS];
	size_t count;
	int64_t start, end; /* of all intervals */
};

static void add(struct shares *shares, const struct share *what, int64_t ns)
{
	size_t i = 0;
	/* What a hostile file says is longer than any capture adds nothing up. */
	if (ns <= 0 || ns > INT64_MAX / 4 - shares->ns)
		return;
	shares->ns += ns;
	while (i < shares->count && (shares->list[i].file != what->file || shares->list[i].line != what->line ||
				     shares->list[i].module != what->module))
		i++;
	if (i == KINDS)
		return;
	if (i == shares->count) {
		shares->list[shares->count++] = *what;
		shares->list[i].ns = 0;
	}
	shares->list[i].ns += ns;
}

/* All 0: there is none. */
static struct share most(const struct shares *shares)
{
	struct share best = {0};
	for (size_t i = 0; i < shares->count; i++)
		if (shares->list[i].ns > best.ns)
			best = shares->list[i];
	return best;
}

static void begin(struct search *search, const struct findings *findings, struct places *ret)
{
	search->start = INT64_MAX;
	search->end = INT64_MIN;
	for (size_t f = 0; f < findings->count; f++) {
		/* Intervals of a finding that lies within others are whole steps, of which no place says anything. */
		if (finding_facts(findings->items[f].kind)->flags & FINDING_WITHIN)
			continue;
		for (size_t i = 0; i < findings->items[f].interval_count; i++) {
			const struct finding_interval *interval = &findings->items[f].intervals[i];
			if (!interval->thread || interval->end <= interval->start)
				continue;
			search->list[search->count++] = (struct looked){.interval = interval, .place = &ret->of[f][i]};
			search->start = interval->start < search->start ? interval->start : search->start;
			search->end = interval->end > search->end ? interval->end : search->end;
		}
	}
}

#define LINE "f.file, f.line, f.function"
/* Columns: start, duration, thread, the line's file, number and function, module, own time, name. */
#define OPERATORS                                                                                                      \
	"SELECT o.start, o.duration, o.thread, " LINE                                                                  \
	", g.module, o.self, o.name FROM operators o LEFT JOIN stack_lines l ON l.stack = o.stack LEFT JOIN stacks f " \
	"ON f.id = l.frame LEFT JOIN stack_modules g ON g.stack = o.stack WHERE o.stack IS NOT NULL AND o.start < ?2 " \
	"AND o.start + o.duration > ?1"

static struct share line_of(sqlite3_stmt *row)
{
	return (struct share){.file = sqlite3_column_int64(row, 3),
			      .line = sqlite3_column_int64(row, 4),
			      .function = sqlite3_column_int64(row, 5)};
}

static void weigh(struct looked *looked, enum way way, sqlite3_stmt *row, int64_t ns)
{
	struct share line = line_of(row), module = {.module = sqlite3_column_int64(row, 6)};
	if (line.file)
		add(&looked->lines[way], &line, ns);
	if (module.module)
		add(&looked->modules[way], &module, ns);
}

static void take_operator(struct search *search, sqlite3_stmt *row)
{
	int64_t start = sqlite3_column_int64(row, 0), duration = sqlite3_column_int64(row, 1);
	int64_t end = duration > INT64_MAX - start ? INT64_MAX : start + duration, self = sqlite3_column_int64(row, 7);
	for (size_t i = 0; i < search->count; i++) {
		struct looked *looked = &search->list[i];
		int64_t from = start > looked->interval->start ? start : looked->interval->start;
		int64_t to = end < looked->interval->end ? end : looked->interval->end;
		if (to <= from || sqlite3_column_int64(row, 2) != looked->interval->thread)
			continue;
		int64_t ns = to - from < self ? to - from : self, name = sqlite3_column_int64(row, 8);
		if (name && (name == looked->interval->outer || name == looked->interval->name))
			weigh(looked, NAMED, row, to - from);
		weigh(looked, RAN, row, ns);
	}
}

/* Columns: time, duration, thread, the line's file, number and function. */
#define SAMPLES                                                                                                        \
	"SELECT s.time, s.duration, s.thread, " LINE                                                                   \
	" FROM samples s JOIN stack_lines l ON l.stack = s.stack JOIN stacks f ON f.id = l.frame WHERE f.file IS NOT " \
	"NULL AND s.time >= ?1 AND s.time < ?2"

static void take_sample(struct search *search, sqlite3_stmt *row)
{
	int64_t time = sqlite3_column_int64(row, 0);
	struct share line = line_of(row);
	for (size_t i = 0; i < search->count; i++) {
		struct looked *looked = &search->list[i];
		if (time >= looked->interval->start && time < looked->interval->end &&
		    sqlite3_column_int64(row, 2) == looked->interval->thread)
			add(&looked->lines[SAMPLED], &line, sqlite3_column_int64(row, 1));
	}
}

static void pass(sqlite3 *db, const char *sql, struct search *search, void (*take)(struct search *, sqlite3_stmt *))
{
	sqlite3_stmt *row = NULL;
	/* A file of an older release has no such table. */
	if (sqlite3_prepare_v2(db, sql, -1, &row, NULL) != SQLITE_OK)
		return;
	sqlite3_bind_int64(row, 1, search->start);
	sqlite3_bind_int64(row, 2, search->end);
	while (sqlite3_step(row) == SQLITE_ROW)
		take(search, row);
	sqlite3_finalize(row);
}

static void settle(struct looked *looked)
{
	bool filled = looked->lines[RAN].ns >= (looked->interval->end - looked->interval->start) / 2;
	enum way way = looked->lines[NAMED].count ? NAMED : filled || !looked->lines[SAMPLED].count ? RAN : SAMPLED;
	struct share line = most(&looked->lines[way]);
	*looked->place =
		(struct place){.file = line.file,
			       .line = line.line,
			       .function = line.function,
			       .module = most(&looked->modules[looked->modules[NAMED].count ? NAMED : RAN]).module};
}

void places_find(sqlite3 *db, const struct findings *findings, struct places *ret)
{
	struct search *search = calloc(1, sizeof *search);
	*ret = (struct places){0};
	if (search)
		begin(search, findings, ret);
	if (search && search->count) {
		pass(db, OPERATORS, search, take_operator);
		pass(db, SAMPLES, search, take_sample);
		for (size_t i = 0; i < search->count; i++)
			settle(&search->list[i]);
	}
	free(search);
}

char *places_module(sqlite3 *db, int64_t module)
{
	sqlite3_stmt *row = NULL;
	char *path = NULL;
	if (!module || sqlite3_prepare_v2(db,
					  "WITH RECURSIVE " MODULE_PATHS(
						  "true") " SELECT " MODULE_NAME
							  " FROM paths p JOIN named m ON m.id = p.id WHERE p.id = ?1",
					  -1, &row, NULL) != SQLITE_OK)
		return NULL;
	sqlite3_bind_int64(row, 1, module);
	if (sqlite3_step(row) == SQLITE_ROW && sqlite3_column_text(row, 0))
		path = sqlite3_mprintf("%s", sqlite3_column_text(row, 0));
	sqlite3_finalize(row);
	return path;
}
