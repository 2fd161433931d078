/* places.c - see places.h. Two passes, over operators and over samples: a capture has no index by time, and the
 * intervals are few. No locks. */
#include "places.h"

#include "module_paths.h"
#include "shares.h"

#include <stdlib.h>
#include <string.h>

/* How a place is found: by the operators that the interval names, by all operators that ran in it, by samples. */
enum way { NAMED, RAN, SAMPLED, WAYS };

struct looked {
	const struct finding_interval *interval;
	struct place *place;
	int64_t module; /* id in nn_modules */
	struct shares lines[WAYS], modules[WAYS];
};

struct search {
	struct looked list[PLACES];
	size_t count;
	int64_t start, end; /* of all intervals */
};

static void begin(struct search *search, const struct findings *findings, struct places *ret)
{
	search->start = INT64_MAX;
	search->end = INT64_MIN;
	for (size_t f = 0; f < findings->count; f++) {
		/* The intervals of a finding that lies within others are whole steps, of which no place says
		 * anything. */
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

/* Columns: start, duration, thread, the line's file, number and function, module, own time, name. */
#define OPERATORS                                                                                                      \
	"SELECT o.start, o.duration, o.thread, " SHARES_LINE                                                           \
	", g.module, o.self, o.name FROM operators o LEFT JOIN stack_lines l ON l.stack = o.stack LEFT JOIN stacks f " \
	"ON f.id = l.frame LEFT JOIN stack_modules g ON g.stack = o.stack WHERE o.stack IS NOT NULL AND o.start < ?2 " \
	"AND o.start + o.duration > ?1"

static void weigh(struct looked *looked, enum way way, sqlite3_stmt *row, int64_t ns)
{
	struct share line = shares_line(row), module = {.module = sqlite3_column_int64(row, 6)};
	if (line.file)
		shares_add(&looked->lines[way], &line, ns);
	if (module.module)
		shares_add(&looked->modules[way], &module, ns);
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

#define SAMPLES SHARES_SAMPLES " AND s.time >= ?1 AND s.time < ?2"

static void take_sample(struct search *search, sqlite3_stmt *row)
{
	int64_t time = sqlite3_column_int64(row, 0);
	struct share line = shares_line(row);
	for (size_t i = 0; i < search->count; i++) {
		struct looked *looked = &search->list[i];
		if (time >= looked->interval->start && time < looked->interval->end &&
		    sqlite3_column_int64(row, 2) == looked->interval->thread)
			shares_add(&looked->lines[SAMPLED], &line, sqlite3_column_int64(row, 1));
	}
}

static void pass(sqlite3 *db, const char *sql, struct search *search, void (*take)(struct search *, sqlite3_stmt *))
{
	sqlite3_stmt *row = NULL;
	/* A file of an older release lacks the table. */
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
	struct share line = shares_most(&looked->lines[way]);
	*looked->place = (struct place){.file = line.file, .line = line.line, .function = line.function};
	looked->module = shares_most(&looked->modules[looked->modules[NAMED].count ? NAMED : RAN]).module;
}

/* Is the place in a module whose path is not known yet? */
static bool wants_path(const struct looked *looked)
{
	return looked->module && !looked->place->module;
}

/* Gives the module's path to all intervals in the module: most are in a few modules. */
static void name_module(struct search *search, int64_t module, const char *path, struct places *ret)
{
	char *copy = NULL;
	for (size_t i = 0; i < search->count; i++) {
		struct looked *looked = &search->list[i];
		if (looked->module != module || !wants_path(looked))
			continue;
		if (!copy) {
			copy = strdup(path);
			if (!copy)
				return;
			ret->paths[ret->path_count++] = copy;
		}
		looked->place->module = copy;
	}
}

static bool any_wants_path(const struct search *search)
{
	bool any = false;
	for (size_t i = 0; i < search->count; i++)
		any |= wants_path(&search->list[i]);
	return any;
}

/* All modules in one query: even for a single path it has to make all of them. */
static void name_modules(sqlite3 *db, struct search *search, struct places *ret)
{
	sqlite3_stmt *row = NULL;
	if (!any_wants_path(search) ||
	    sqlite3_prepare_v2(db,
			       "WITH RECURSIVE " MODULE_PATHS("true") " SELECT p.id, " MODULE_NAME
								      " FROM paths p JOIN named m ON m.id = p.id",
			       -1, &row, NULL) != SQLITE_OK)
		return;
	while (any_wants_path(search) && sqlite3_step(row) == SQLITE_ROW)
		if (sqlite3_column_text(row, 1))
			name_module(search, sqlite3_column_int64(row, 0), (const char *)sqlite3_column_text(row, 1),
				    ret);
	sqlite3_finalize(row);
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
		name_modules(db, search, ret);
	}
	free(search);
}

void places_free(struct places *places)
{
	for (size_t i = 0; i < places->path_count; i++)
		free(places->paths[i]);
	*places = (struct places){0};
}
