/* fuzz_daemon_recovery.c - a capture's file without a row in the catalogue, as the next daemon finds it: it is refused with a sentence, or what
 * it says of itself is within bounds. The input: a byte for its schema, lines "key=value" of its `meta` up to an empty line, then four
 * bytes for each place of the file that is changed: three say where, one what stands there; an odd number of bytes that are left
 * cuts the file there. */
#include "daemon/catalogue/catalogue.h"
#include "daemon/catalogue/recovery_rows.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static struct catalogue catalogue;

static void remove_folder(void)
{
	unlinkat(catalogue.folder, "7.db", 0);
	rmdir(catalogue.folder_path);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	char folder[] = "/tmp/fuzz_recovery.XXXXXX";
	(void)argc, (void)argv;
	if (!mkdtemp(folder))
		return 1;
	snprintf(catalogue.folder_path, sizeof catalogue.folder_path, "%s", folder);
	catalogue.folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	atexit(remove_folder);
	return catalogue.folder < 0;
}

static void run(sqlite3 *db, const char *sql)
{
	if (sqlite3_exec(db, sql, NULL, NULL, NULL))
		abort();
}

/* What a finished capture says, before the lines of the input. */
static sqlite3 *begin(unsigned schema)
{
	sqlite3 *db;
	char sql[64];
	if (sqlite3_open(":memory:", &db))
		abort();
	snprintf(sql, sizeof sql, "PRAGMA user_version = %u", schema);
	run(db, sql);
	run(db,
	    "CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID; CREATE TABLE steps (duration);"
	    "INSERT INTO meta VALUES ('status', 'complete'), ('capture_id', '7'); INSERT INTO steps VALUES (1), (2)");
	return db;
}

/* The key "step" makes a step of this duration. */
static void put_line(sqlite3 *db, char *line)
{
	char *value = strchr(line, '=');
	sqlite3_stmt *statement;
	if (!value)
		return;
	*value++ = 0;
	bool step = strcmp(line, "step") == 0;
	if (sqlite3_prepare_v2(db,
			       step ? "INSERT INTO steps VALUES (?2)" : "INSERT OR REPLACE INTO meta VALUES (?1, ?2)",
			       -1, &statement, NULL))
		abort();
	if (!step)
		sqlite3_bind_text(statement, 1, line, -1, SQLITE_STATIC);
	sqlite3_bind_text(statement, 2, value, -1, SQLITE_STATIC);
	sqlite3_step(statement);
	sqlite3_finalize(statement);
}

static void write_file(sqlite3 *db, const uint8_t *changes, size_t n)
{
	sqlite3_int64 bytes;
	unsigned char *whole = sqlite3_serialize(db, "main", &bytes, 0);
	int fd = openat(catalogue.folder, "7.db", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (!whole || fd < 0)
		abort();
	for (; n >= 4; n -= 4, changes += 4)
		whole[(changes[0] | changes[1] << 8 | changes[2] << 16) % bytes] = changes[3];
	size_t left = n & 1 ? changes[0] * (size_t)bytes / 256 : (size_t)bytes;
	if (write(fd, whole, left) != (ssize_t)left)
		abort();
	close(fd);
	sqlite3_free(whole);
}

static bool ends(const char *text, size_t bytes)
{
	return strnlen(text, bytes) < bytes;
}

static void check(const struct capture_facts *facts)
{
	const struct identity *who = &facts->who;
	if (facts->number != 7 || (facts->status != CAPTURE_COMPLETE && facts->status != CAPTURE_INCOMPLETE) ||
	    !cancel_reason_word(facts->reason_code))
		abort();
	if (!ends(who->pids, sizeof who->pids) || !ends(who->host, sizeof who->host) ||
	    !ends(who->name, sizeof who->name) || !ends(who->command, sizeof who->command) ||
	    !ends(who->job, sizeof who->job) || !ends(facts->label, sizeof facts->label) ||
	    !ends(facts->reason, sizeof facts->reason))
		abort();
	if (facts->events > INT64_MAX || facts->lost > INT64_MAX || facts->step_ns > INT64_MAX ||
	    facts->started > INT64_MAX)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct capture_facts facts;
	char why[200] = "";
	if (!n)
		return 0;
	const char *end = memmem(data + 1, n - 1, "\n\n", 2);
	size_t lines = end ? (size_t)(end - (const char *)data) - 1 : n - 1, used = 1 + lines + (end ? 2 : 0);
	char *text = strndup((const char *)data + 1, lines), *rest = text;
	sqlite3 *db = begin(data[0]);
	for (char *line; (line = strsep(&rest, "\n"));)
		put_line(db, line);
	free(text);
	write_file(db, data + used, n - used);
	sqlite3_close(db);
	int error = catalogue_from_file(&catalogue, 7, &facts, why, sizeof why);
	if (error ? !*why || !ends(why, sizeof why) : *why != 0)
		abort();
	if (!error)
		check(&facts);
	return 0;
}
