/* open.c - see open.h. Before the catalogue's thread exists; no locks. */
#include "open.h"
#include "catalogue.h"
#include "history.h"
#include "sql.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/version.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static int set_version(struct catalogue *catalogue)
{
	char version[64];
	snprintf(version, sizeof version, "PRAGMA user_version=%d", CATALOGUE_SCHEMA_VERSION);
	return catalogue_run(catalogue, version);
}

static int create(struct catalogue *catalogue)
{
	static const char *const statements[] = {
#define CATALOGUE_SQL(statement) statement,
#include "proto/schema.def"
	};
	int error = catalogue_run(catalogue, "BEGIN IMMEDIATE");
	for (size_t i = 0; i < sizeof statements / sizeof *statements && !error; i++)
		error = catalogue_run(catalogue, statements[i]);
	if (!error)
		error = set_version(catalogue);
	return error ? error : catalogue_run(catalogue, "COMMIT");
}

/* All steps from `version` are one transaction: a daemon that is killed meanwhile has changed nothing. */
static int migrate(struct catalogue *catalogue, uint64_t version)
{
	static const struct {
		uint64_t from;
		const char *statement;
	} steps[] = {
#define CATALOGUE_MIGRATION(from, statement) {from, statement},
#include "proto/schema.def"
	};
	int error = catalogue_run(catalogue, "BEGIN IMMEDIATE");
	for (size_t i = 0; i < sizeof steps / sizeof *steps && !error; i++)
		if (steps[i].from >= version)
			error = catalogue_run(catalogue, steps[i].statement);
	if (!error)
		error = set_version(catalogue);
	if (!error)
		error = catalogue_run(catalogue, "COMMIT");
	if (error)
		sqlite3_exec(catalogue->db, "ROLLBACK", NULL, NULL, NULL);
	else
		log_line("the catalogue of schema %" PRIu64 " is now of schema %d", version, CATALOGUE_SCHEMA_VERSION);
	return error;
}

/* SQLite itself would go on with a pipe or a device as its log, and lose what is written there. */
static bool are_files(const char *path, char *sentence, size_t sentence_bytes)
{
	static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
	for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
		char one[560];
		struct stat facts;
		snprintf(one, sizeof one, "%s%s", path, suffixes[i]);
		if (lstat(one, &facts) == 0 && !S_ISREG(facts.st_mode)) {
			snprintf(sentence, sentence_bytes, "cannot use %s: it is not a regular file; move it away",
				 one);
			return false;
		}
	}
	return true;
}

static int open_file(struct catalogue *catalogue, const char *path, char *sentence, size_t sentence_bytes)
{
	if (!are_files(path, sentence, sentence_bytes))
		return -EINVAL;
	int error = 0;
	if (sqlite3_open_v2(path, &catalogue->db,
			    SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_NOMUTEX,
			    NULL)) {
		snprintf(sentence, sentence_bytes, "cannot open %s: %s", path, sqlite3_errmsg(catalogue->db));
		error = -EIO;
	}
	if (!error) {
		sqlite3_busy_timeout(catalogue->db, 2000);
		error = catalogue_run(catalogue,
				      "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA trusted_schema=OFF");
		snprintf(sentence, sentence_bytes, "cannot use %s: %s", path, sqlite3_errmsg(catalogue->db));
	}
	return error;
}

/* Tells what is wrong with the file; empty: it is sound. */
static void find_damage(struct catalogue *catalogue, char *ret, size_t ret_bytes)
{
	sqlite3_stmt *s = NULL;
	*ret = 0;
	int code = sqlite3_prepare_v2(catalogue->db, "PRAGMA quick_check(1)", -1, &s, NULL);
	if (code == SQLITE_OK)
		code = sqlite3_step(s);
	const char *text = code == SQLITE_ROW ? (const char *)sqlite3_column_text(s, 0) : NULL;
	if (text && strcmp(text, "ok") != 0)
		text_copy(ret, ret_bytes, text);
	else if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB)
		text_copy(ret, ret_bytes, sqlite3_errmsg(catalogue->db));
	ret[strcspn(ret, "\n")] = 0;
	sqlite3_finalize(s);
}

/* Moves the file and its log aside, closed. 0, or a negative errno with a sentence. */
static int put_aside(struct catalogue *catalogue, const char *directory, const char *path, const char *damage,
		     char *sentence, size_t sentence_bytes)
{
	static const char *const suffixes[] = {"", "-wal", "-shm"};
	char from[560], to[600], time[TIME_TEXT_BYTES];
	sqlite3_db_config(catalogue->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	sqlite3_close(catalogue->db);
	catalogue->db = NULL;
	snprintf(to, sizeof to, "%s/lost", directory);
	int error = mkdir(to, 0750) && errno != EEXIST ? errno : 0;
	time_text(clock_realtime(), time);
	for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes && !error; i++) {
		snprintf(from, sizeof from, "%s%s", path, suffixes[i]);
		snprintf(to, sizeof to, "%s/lost/catalogue-%s.db%s", directory, time, suffixes[i]);
		if (rename(from, to) && errno != ENOENT)
			error = errno;
	}
	if (error) {
		snprintf(sentence, sentence_bytes,
			 "%s is damaged (%s) and cannot be moved to %s/lost (%s); move it away", path, damage,
			 directory, strerror(error));
		return -error;
	}
	log_line("%s was damaged (%s): it is now %s/lost/catalogue-%s.db, and a new one is made from the captures' "
		 "files. Pins, "
		 "the audit log and what was deleted are known to the old one alone",
		 path, damage, directory, time);
	return 0;
}

int catalogue_open(struct catalogue *catalogue, const char *directory, int folder, const char *folder_path,
		   char *sentence, size_t sentence_bytes)
{
	memset(catalogue, 0, sizeof *catalogue);
	catalogue->folder = folder;
	text_copy(catalogue->folder_path, sizeof catalogue->folder_path, folder_path);
	char path[512], damage[200] = "";
	snprintf(path, sizeof path, "%s/catalogue.db", directory);
	int error = open_file(catalogue, path, sentence, sentence_bytes);
	if (catalogue->db)
		find_damage(catalogue, damage, sizeof damage);
	if (*damage) {
		error = put_aside(catalogue, directory, path, damage, sentence, sentence_bytes);
		if (!error)
			error = open_file(catalogue, path, sentence, sentence_bytes);
	}
	uint64_t version = error ? 0 : catalogue_number(catalogue, "PRAGMA user_version");
	if (!error && version > CATALOGUE_SCHEMA_VERSION) {
		snprintf(sentence, sentence_bytes,
			 "%s was written by a newer release of profd (schema %" PRIu64 ", this one knows %d); use that "
			 "release, or another folder with --dir",
			 path, version, CATALOGUE_SCHEMA_VERSION);
		error = -EPROTO;
	}
	if (!error && version == 0) {
		error = create(catalogue);
		snprintf(sentence, sentence_bytes, "cannot make %s: %s", path, sqlite3_errmsg(catalogue->db));
	} else if (!error && version < CATALOGUE_SCHEMA_VERSION) {
		error = migrate(catalogue, version);
		snprintf(sentence, sentence_bytes, "cannot bring %s from schema %" PRIu64 " to %d: %s", path, version,
			 CATALOGUE_SCHEMA_VERSION, sqlite3_errmsg(catalogue->db));
	}
	if (!error) {
		catalogue_history_grown(catalogue);
		catalogue->deleted_at = catalogue_number(catalogue, "SELECT max(at) FROM deleted");
	}
	if (error) {
		sqlite3_close(catalogue->db);
		catalogue->db = NULL;
	}
	return error;
}
