/* fuzz_file.c - a hostile capture file: shown and exported, or compared with another and as another rank of its job, it is refused with a
 * sentence, or read within its bounds.
 *
 * The input changes a file of ours, or two, by operations: a byte that tells which, then what it needs:
 *     a row in any table, a value a column; a value in `meta`; bytes anywhere in the file
 * wrap: exit */
#include "client/command/ranks_answer.h"
#include "client/compare/names.h"
#include "client/compare/ranks.h"
#include "client/compare/setup.h"
#include "client/compare/where.h"
#include "client/export/export.h"
#include "client/report/losses.h"
#include "client/report/views.h"
#include "store/store.h"
#include "take.h"

#include <fcntl.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerInitialize(int *argc, char ***argv);
int __lsan_is_turned_off(void);
_Noreturn void __wrap_exit(int code);
_Noreturn void __real_exit(int code);

#define TABLES_MAX 128
#define ROWS_MAX 512
#define FIRST_RANK "REPLACE INTO meta (key, value) VALUES ('rank', 0)"
#define SECOND_RANK "REPLACE INTO meta (key, value) VALUES ('rank', 1)"

static unsigned char *template;
static sqlite3_int64 template_bytes;
static char *tables[TABLES_MAX];
static size_t table_count;
static jmp_buf out;
static bool running;

/* A report that cannot go on ends the program. What it had open is left, and so leaks are not looked for. */
_Noreturn void __wrap_exit(int code)
{
	if (!running)
		__real_exit(code);
	longjmp(out, 1);
}

int __lsan_is_turned_off(void)
{
	return 1;
}

static void note_tables(sqlite3 *db)
{
	sqlite3_stmt *statement;
	if (sqlite3_prepare_v2(db, "SELECT name FROM sqlite_master WHERE type = 'table'", -1, &statement, NULL))
		abort();
	while (sqlite3_step(statement) == SQLITE_ROW && table_count < TABLES_MAX)
		tables[table_count++] = strdup((const char *)sqlite3_column_text(statement, 0));
	sqlite3_finalize(statement);
}

/* A small capture of ours, with all tables. */
static bool make_template(const char *path)
{
	struct store *store = store_new(NULL);
	struct capture_facts facts = {.number = 1, .started = 1, .steps_wanted = 3, .status = CAPTURE_COMPLETE};
	struct store_ending ending = {.has_done = true, .record_start = 1000, .record_end = 2000};
	struct store_finished finished;
	union event_any step = {
		.step = {.head = {sizeof step.step, EVENT_STEP, 0, 1}, .start = 1000, .duration = 1000}};
	for (unsigned i = 0; i < COLLECTOR_COUNT; i++)
		ending.collectors[i] = (struct store_collector){.wanted = true, .told = true, .ran = true};
	store_create_at(store, path);
	store_begin(store);
	store_put_facts(store, &facts);
	store_set_base(store, 1000, 1000);
	store_expect_device(store);
	store_unordered(store);
	store_put_string(store, 1, "aten::mm", 8);
	store_put_event(store, &step);
	store_commit(store);
	int error = store_finish(store, &ending, &facts, NULL, &finished);
	if (error)
		fprintf(stderr, "%s\n", store_sentence(store));
	store_free(store);
	return !error && finished.kept;
}

/* As a job of several ranks has them: one that runs in the step, on a device and in a library's thread. */
static void put_collectives(sqlite3 *db)
{
	if (sqlite3_exec(
		    db,
		    "INSERT INTO collectives (id, step, thread, start, duration, operation, bytes, group_name, group_ranks, "
		    "group_size, begun, ended, device) VALUES (1, 1, 1, 1100, 10, 'all_reduce', 4096, '0', '[0, 1]', 2, 1150, 1400, 1), "
		    "(2, 1, 1, 1500, 10, 'barrier', NULL, '0', '[0, 1]', 2, 1500, 1700, 0)",
		    NULL, NULL, NULL))
		abort();
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	char folder[] = "/tmp/fuzz_file.XXXXXX", path[64];
	sqlite3 *db;
	(void)argc, (void)argv;
	snprintf(path, sizeof path, "%s/1.db", mkdtemp(folder) ? folder : "/nowhere");
	if (!make_template(path) || sqlite3_open(path, &db))
		return 1;
	note_tables(db);
	put_collectives(db);
	/* Each table and index has a page at least, and each input copies them all. */
	if (sqlite3_exec(db, "PRAGMA journal_mode = DELETE; PRAGMA page_size = 512; VACUUM", NULL, NULL, NULL))
		abort();
	template = sqlite3_serialize(db, "main", &template_bytes, 0);
	sqlite3_close(db);
	unlink(path);
	rmdir(folder);
	/* libFuzzer has kept the real one. */
	stderr = fopen("/dev/null", "w");
	return template && stderr ? 0 : 1;
}

/* --- the input --- */

static void bind(sqlite3_stmt *statement, int column, struct input *input)
{
	static const int64_t odd[] = {INT64_MIN, INT64_MAX, -1, INT32_MAX, 1ll << 53, 4611686018427387904};
	unsigned kind = take(input);
	if (kind < 200) {
		sqlite3_bind_int64(statement, column, kind);
	} else if (kind < 210) {
		sqlite3_bind_int64(statement, column, (int64_t)take_bytes(input, 8));
	} else if (kind < 220) {
		sqlite3_bind_int64(statement, column, odd[kind % (sizeof odd / sizeof *odd)]);
	} else if (kind < 235) {
		size_t n = take(input);
		n = n < input->left ? n : input->left;
		if (kind < 230)
			sqlite3_bind_text(statement, column, (const char *)input->at, (int)n, SQLITE_TRANSIENT);
		else
			sqlite3_bind_blob(statement, column, input->at, (int)n, SQLITE_TRANSIENT);
		input->at += n;
		input->left -= n;
	} else if (kind < 240) {
		double value;
		uint64_t bits = take_bytes(input, 8);
		memcpy(&value, &bits, sizeof value);
		sqlite3_bind_double(statement, column, value);
	}
}

static void put_row(sqlite3 *db, struct input *input, unsigned rows)
{
	char sql[1024];
	const char *table = tables[take(input) % table_count];
	sqlite3_stmt *statement;
	int columns = 0;
	snprintf(sql, sizeof sql, "SELECT count(*) FROM pragma_table_info('%s')", table);
	if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW)
		columns = sqlite3_column_int(statement, 0);
	sqlite3_finalize(statement);
	int n = snprintf(sql, sizeof sql, "INSERT OR REPLACE INTO \"%s\" VALUES (", table);
	for (int i = 0; i < columns; i++)
		n += snprintf(sql + n, sizeof sql - (size_t)n, i ? ",?" : "?");
	snprintf(sql + n, sizeof sql - (size_t)n, ")");
	if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL))
		return;
	for (int i = 1; i <= columns; i++)
		bind(statement, i, input);
	for (unsigned i = 0; i < rows; i++) {
		sqlite3_step(statement);
		sqlite3_reset(statement);
		/* Another time, and where the first column is an id another one. */
		sqlite3_bind_int64(statement, 1, i + 2);
	}
	sqlite3_finalize(statement);
}

static void put_meta(sqlite3 *db, struct input *input)
{
	sqlite3_stmt *statement;
	if (sqlite3_prepare_v2(db,
			       "UPDATE meta SET value = ?2 WHERE rowid = (SELECT rowid FROM meta LIMIT 1 OFFSET ?1)",
			       -1, &statement, NULL))
		return;
	sqlite3_bind_int64(statement, 1, take(input) % 64);
	bind(statement, 2, input);
	sqlite3_step(statement);
	sqlite3_finalize(statement);
}

/* The changed file; -1 where there is none. set_rank: done first. */
static int make_file(struct input *input, const char *set_rank)
{
	sqlite3 *db = NULL;
	sqlite3_int64 bytes;
	unsigned rows = 0;
	unsigned char *own = sqlite3_malloc64((sqlite3_uint64)template_bytes), *whole;
	uint64_t patches[16][2];
	size_t patch_count = 0;
	memcpy(own, template, (size_t)template_bytes);
	if (sqlite3_open(":memory:", &db) ||
	    sqlite3_deserialize(db, "main", own, template_bytes, template_bytes,
				SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_RESIZEABLE))
		abort();
	sqlite3_exec(db, "BEGIN", NULL, NULL, NULL);
	sqlite3_exec(db, set_rank, NULL, NULL, NULL);
	while (input->left) {
		unsigned what = take(input);
		if (what < 200 && rows < ROWS_MAX) {
			unsigned times = what < 190 ? 1 : 1u << (what - 190) % 8;
			rows += times;
			put_row(db, input, times);
		} else if (what < 240) {
			put_meta(db, input);
		} else if (patch_count < 16) {
			patches[patch_count][0] = take_bytes(input, 3);
			patches[patch_count++][1] = take_bytes(input, 8);
		}
	}
	sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
	whole = sqlite3_serialize(db, "main", &bytes, 0);
	int fd = whole ? memfd_create("capture", MFD_CLOEXEC) : -1;
	for (size_t i = 0; whole && i < patch_count; i++)
		memcpy(whole + patches[i][0] % (uint64_t)(bytes - 8), &patches[i][1], 8);
	if (fd >= 0 && write(fd, whole, (size_t)bytes) != bytes)
		abort();
	sqlite3_free(whole);
	sqlite3_close(db);
	return fd;
}

/* --- the client --- */

static void show(const struct reader *reader, const struct view *view, const struct report_options *options)
{
	struct table *table = view->table(reader, options);
	cJSON_Delete(table_json(table, 100));
	table_free(table);
	table_free(report_collectors(reader));
}

/* One with the other. */
static void compare(const char *one, const char *other)
{
	static struct side a, b;
	static struct compare_table table;
	if (side_open(one, &a) == 0 && side_open(other, &b) == 0) {
		side_pair(&a, &b);
		cJSON_Delete(setup_differences(&a, &b));
		compare_breakdown(&a, &b, &table);
		compare_free(&table);
		for (size_t i = 0; i < COMPARE_KINDS; i++) {
			compare_names(&a, &b, &compare_kinds[i], &table);
			compare_free(&table);
		}
	}
	side_close(&a);
	side_close(&b);
}

/* As ranks of one job. */
static void compare_ranks(const char *const *words)
{
	static struct side side;
	static struct ranks ranks;
	memset(&ranks, 0, sizeof ranks);
	if (side_open_all(words, 2, &side) == 0 && ranks_compare(&side, &ranks) == 0)
		free(ranks_answer(&ranks));
	ranks_free(&ranks);
	side_close(&side);
}

static void compare_files(struct input *input, bool ranks)
{
	size_t of_one = take_bytes(input, 2);
	struct input one = *input, other = *input;
	one.left = of_one < input->left ? of_one : input->left;
	other.at += one.left;
	other.left -= one.left;
	int fds[] = {make_file(&one, FIRST_RANK), make_file(&other, SECOND_RANK)};
	char paths[2][64];
	const char *words[] = {paths[0], paths[1]};
	for (size_t i = 0; i < 2; i++)
		snprintf(paths[i], sizeof paths[i], "/proc/self/fd/%d", fds[i]);
	running = true;
	if (setjmp(out))
		;
	else if (ranks)
		compare_ranks(words);
	else
		compare(words[0], words[1]);
	running = false;
	for (size_t i = 0; i < 2; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

/* view NULL: exported. */
static void read_file(struct input *input, const struct view *view, const struct export_format *format,
		      const struct report_options *options)
{
	static struct reader reader;
	char why[1024] = "";
	int fd = make_file(input, FIRST_RANK);
	if (fd < 0 || reader_open(&reader, fd, why, sizeof why)) {
		if (fd >= 0 && !*why)
			abort();
		return;
	}
	struct export_options how = {.threads = 2, .compression = EXPORT_COMPRESSION_NONE};
	if (!view) {
		if (export_run(format, &reader, 1, &how, "/dev/null", why, sizeof why) && !*why)
			abort();
	} else if (!setjmp(out)) {
		running = true;
		show(&reader, view, options);
	}
	running = false;
	for (sqlite3_stmt *left; (left = sqlite3_next_stmt(reader.db, NULL));)
		sqlite3_finalize(left);
	reader_close(&reader);
}

/* One of what the client does with files: all of it each time would be ten inputs a second. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	size_t view_count, format_count;
	const struct view *views = view_table(&view_count);
	const struct export_format *formats = export_formats(&format_count);
	struct input input = {data, n};
	size_t what = take(&input) % (view_count + format_count + 2);
	struct report_options options = {.step = (int64_t)(n % 3), .shapes = n & 1};
	if (what < 2)
		compare_files(&input, what);
	else if (what < 2 + format_count)
		read_file(&input, NULL, &formats[what - 2], &options);
	else
		read_file(&input, &views[what - 2 - format_count], NULL, &options);
	return 0;
}
