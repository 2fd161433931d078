/* pages.c - see pages.h. The format is described in sqlite.org/fileformat2.html: a table is a tree of pages. Its leaves
 * have the rows, in the order of their rowids. A row has a header with the type of each column, and then the values. */
#include "pages.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

/* Pages from a tree's root to a leaf. SQLite makes no deeper tree. */
#define DEPTH_MOST 20
#define LEAF 13
#define INTERIOR 5
#define LEAF_HEADER 8
#define INTERIOR_HEADER 12
/* Each value is read as a word, which may end so far behind the page. */
#define BEYOND sizeof(uint64_t)

/* Types of values. Those from 10 on are texts and blobs. */
#define TYPE_NULL 0
#define TYPE_REAL 7
#define TYPE_ONE 9
#define ODD 0x80
static const uint8_t type_bytes[256] = {0, 1, 2, 3, 4, 6, 8, 8, 0, 0, [10 ... 255] = ODD};

/* No column behind these is read. */
#define LOOKED_AT_MOST 64

/* A column, and its place in struct scan_row. */
struct wanted {
	size_t column, place;
};

struct reading {
	const struct pages *pages;
	struct wanted wanted[SCAN_COLUMNS];
	size_t count, looked_at; /* looked_at: columns up to the last one that is wanted */
	uint32_t rowids;	 /* bits: the places of the rowid */
	uint64_t pages_left;
	int64_t next;
	bool (*take)(void *context, const struct scan_row *row);
	void *context;
};

struct level {
	uint8_t *page;
	size_t cell;
};

static uint32_t two(const uint8_t *at)
{
	return (uint32_t)at[0] << 8 | at[1];
}

static uint32_t four(const uint8_t *at)
{
	return two(at) << 16 | two(at + 2);
}

/* A number of up to nine bytes. NULL: it goes beyond `end`. */
static const uint8_t *varint(const uint8_t *at, const uint8_t *end, uint64_t *ret)
{
	uint64_t value = 0;
	if (at < end && *at < 0x80) {
		*ret = *at;
		return at + 1;
	}
	for (size_t i = 0; i < 8; i++) {
		if (at == end)
			return NULL;
		value = value << 7 | (*at & 0x7f);
		if (*at++ < 0x80) {
			*ret = value;
			return at;
		}
	}
	if (at == end)
		return NULL;
	*ret = value << 8 | *at;
	return at + 1;
}

/* The row has so many columns, with these types and values. False: they are not all integers. */
static bool decode(const struct reading *reading, const uint8_t *types, size_t columns, const uint8_t *values,
		   const uint8_t *end, struct scan_row *ret)
{
	uint32_t places[LOOKED_AT_MOST], place = 0;
	uint8_t odd = 0;
	if (columns > reading->looked_at)
		columns = reading->looked_at;
	for (size_t i = 0; i < columns; i++) {
		places[i] = place;
		place += type_bytes[types[i]];
		odd |= type_bytes[types[i]];
	}
	if (odd & ODD || place > (size_t)(end - values))
		return false;
	ret->nulls = 0;
	for (size_t i = 0; i < reading->count; i++) {
		const struct wanted wanted = reading->wanted[i];
		/* A row that is older than the column does not have it. */
		const uint8_t type = wanted.column < columns ? types[wanted.column] : TYPE_NULL;
		uint64_t word;
		if (type == TYPE_REAL)
			return false;
		if (!type_bytes[type]) {
			ret->values[wanted.place] = type == TYPE_ONE;
			ret->nulls |= (uint32_t)(type == TYPE_NULL) << wanted.place;
			continue;
		}
		memcpy(&word, values + places[wanted.column], sizeof word);
		ret->values[wanted.place] = (int64_t)be64toh(word) >> (64 - 8 * type_bytes[type]);
	}
	return true;
}

/* False: reading ends here. */
static bool take_cell(struct reading *reading, const uint8_t *page, size_t at)
{
	const uint8_t *page_end = page + reading->pages->usable, *cell = page + at, *start, *types;
	uint64_t bytes, rowid, header;
	struct scan_row row;
	cell = varint(cell, page_end, &bytes);
	start = cell ? varint(cell, page_end, &rowid) : NULL;
	/* A large row goes on in other pages. */
	if (!start || bytes > (size_t)(page_end - start))
		return false;
	types = varint(start, start + bytes, &header);
	if (!types || header > bytes || header < (size_t)(types - start) || (int64_t)rowid < reading->next)
		return false;
	if (!decode(reading, types, (size_t)(start + header - types), start + header, start + bytes, &row))
		return false;
	for (uint32_t places = reading->rowids; places; places &= places - 1)
		row.values[__builtin_ctz(places)] = (int64_t)rowid;
	/* There is no rowid behind it at which SQL could go on. */
	if ((int64_t)rowid == INT64_MAX)
		return false;
	reading->next = (int64_t)rowid + 1;
	return reading->take(reading->context, &row);
}

static bool take_leaf(struct reading *reading, const uint8_t *page)
{
	size_t cells = two(page + 3);
	if (LEAF_HEADER + 2 * cells > reading->pages->usable)
		return false;
	for (size_t i = 0; i < cells; i++) {
		size_t at = two(page + LEAF_HEADER + 2 * i);
		if (at >= reading->pages->usable || !take_cell(reading, page, at))
			return false;
	}
	return true;
}

/* The next page below this one; 0: there are no more. */
static uint32_t child(const struct reading *reading, struct level *level, bool *ok)
{
	size_t cells = two(level->page + 3), i = level->cell++, at = INTERIOR_HEADER + 2 * i;
	if (i > cells)
		return 0;
	/* The last one is in the page's header. */
	at = i == cells ? 8 : at + 2 <= reading->pages->usable ? two(level->page + at) : SIZE_MAX;
	uint32_t number = at <= reading->pages->usable - 4 ? four(level->page + at) : 0;
	*ok = number != 0;
	return number;
}

/* Page 1 has the schema. */
static bool read_page(struct reading *reading, struct level *level, uint32_t number)
{
	const struct pages *pages = reading->pages;
	if (number < 2 || number > pages->count || !reading->pages_left--)
		return false;
	if (!level->page)
		level->page = calloc(1, pages->page + BEYOND);
	level->cell = 0;
	return level->page &&
	       pages->file->pMethods->xRead(pages->file, level->page, (int)pages->page,
					    (sqlite3_int64)(number - 1) * (sqlite3_int64)pages->page) == SQLITE_OK;
}

static bool read_tree(struct reading *reading, uint32_t root)
{
	struct level levels[DEPTH_MOST] = {0};
	size_t depth = 0;
	uint32_t number = root;
	bool ok = true;
	for (;;) {
		/* Down to a leaf. */
		struct level *level = &levels[depth];
		ok = read_page(reading, level, number);
		if (ok && *level->page == INTERIOR && depth + 1 < DEPTH_MOST)
			depth++;
		else
			ok = ok && *level->page == LEAF && take_leaf(reading, level->page);
		/* Up to a page that has another one below it. */
		for (number = 0; ok && depth && !number; depth -= ok && !number)
			number = child(reading, &levels[depth - 1], &ok);
		if (!ok || !number)
			break;
	}
	for (size_t i = 0; i < DEPTH_MOST; i++)
		free(levels[i].page);
	return ok;
}

/* The number in the first row and column; -1: there is none. */
static int64_t ask(sqlite3 *db, const char *sql, const char *first, const char *second, int bytes)
{
	sqlite3_stmt *statement = NULL;
	int64_t found = -1;
	if (!sqlite3_prepare_v2(db, sql, -1, &statement, NULL)) {
		if (first)
			sqlite3_bind_text(statement, 1, first, -1, SQLITE_STATIC);
		if (second)
			sqlite3_bind_text(statement, 2, second, bytes, SQLITE_STATIC);
		if (sqlite3_step(statement) == SQLITE_ROW)
			found = sqlite3_column_int64(statement, 0);
	}
	sqlite3_finalize(statement);
	return found;
}

/* An integer primary key is the rowid, and is not stored with the row. SQL reads columns with a default value. */
static bool find_columns(struct reading *reading, sqlite3 *db, const char *table, const char *columns)
{
	for (size_t place = 0, bytes; *columns; place++, columns += bytes, columns += strspn(columns, ", ")) {
		bytes = strcspn(columns, ", ");
		int64_t column =
			bytes == 5 && memcmp(columns, "rowid", bytes) == 0
				? -2
				: ask(db,
				      "SELECT CASE WHEN dflt_value IS NOT NULL THEN -1 WHEN pk THEN -2 ELSE cid END FROM "
				      "pragma_table_info(?1) WHERE name = ?2",
				      table, columns, (int)bytes);
		if (place == SCAN_COLUMNS || column == -1 || column >= LOOKED_AT_MOST)
			return false;
		if (column == -2) {
			reading->rowids |= UINT32_C(1) << place;
			continue;
		}
		reading->wanted[reading->count++] = (struct wanted){(size_t)column, place};
		if (reading->looked_at <= (size_t)column)
			reading->looked_at = (size_t)column + 1;
	}
	return true;
}

void pages_begin(struct pages *pages, sqlite3 *db)
{
	sqlite3_file *file = NULL;
	uint8_t header[100];
	*pages = (struct pages){0};
	/* Pages that a statement is using would not be written. */
	for (sqlite3_stmt *each = NULL; (each = sqlite3_next_stmt(db, each)) != NULL;)
		if (sqlite3_stmt_busy(each))
			return;
	if (sqlite3_txn_state(db, "main") != SQLITE_TXN_WRITE || sqlite3_db_cacheflush(db) ||
	    sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file) || !file || !file->pMethods ||
	    file->pMethods->xRead(file, header, sizeof header, 0))
		return;
	int64_t page = ask(db, "PRAGMA page_size", NULL, NULL, 0), count = ask(db, "PRAGMA page_count", NULL, NULL, 0);
	/* With a write-ahead log, pages are in two files. */
	if (page < 512 || page > 65536 || count < 1 || header[18] != 1 || header[19] != 1)
		return;
	*pages = (struct pages){
		.file = file, .page = (size_t)page, .usable = (size_t)page - header[20], .count = (uint64_t)count};
}

bool pages_each(const struct pages *pages, sqlite3 *db, const char *table, const char *columns,
		bool (*take)(void *context, const struct scan_row *row), void *context, int64_t *ret_next)
{
	struct reading reading = {
		.pages = pages, .pages_left = pages->count, .next = INT64_MIN, .take = take, .context = context};
	int64_t root = pages->file && find_columns(&reading, db, table, columns)
			       ? ask(db, "SELECT rootpage FROM sqlite_schema WHERE type = 'table' AND name = ?1", table,
				     NULL, 0)
			       : -1;
	bool all = root > 1 && root <= UINT32_MAX && read_tree(&reading, (uint32_t)root);
	*ret_next = reading.next;
	return all;
}
