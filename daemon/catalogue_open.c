/* catalogue_open.c - catalogue.db is opened, made, or brought to this release's schema. Before the catalogue's thread
 * exists; no locks. */
#include "catalogue_audit.h"
#include "catalogue_sql.h"
#include "log.h"
#include "proto/version.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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

/* All steps from `version` in one transaction: whoever dies on the way has changed nothing. */
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

int catalogue_init(struct catalogue *catalogue, const char *directory, int folder, const char *folder_path,
		   char *sentence, size_t sentence_bytes)
{
	memset(catalogue, 0, sizeof *catalogue);
	catalogue->folder = folder;
	text_copy(catalogue->folder_path, sizeof catalogue->folder_path, folder_path);
	char path[512];
	snprintf(path, sizeof path, "%s/catalogue.db", directory);
	int error = 0;
	if (sqlite3_open_v2(path, &catalogue->db,
			    SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_NOMUTEX,
			    NULL)) {
		snprintf(sentence, sentence_bytes, "cannot open %s: %s", path, sqlite3_errmsg(catalogue->db));
		error = -EIO;
	}
	uint64_t version = 0;
	if (!error) {
		sqlite3_busy_timeout(catalogue->db, 2000);
		error = catalogue_run(catalogue,
				      "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA trusted_schema=OFF");
		version = catalogue_number(catalogue, "PRAGMA user_version");
		snprintf(sentence, sentence_bytes, "cannot use %s: %s", path, sqlite3_errmsg(catalogue->db));
	}
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
	if (!error)
		catalogue_history_grown(catalogue);
	if (error) {
		sqlite3_close(catalogue->db);
		catalogue->db = NULL;
	}
	return error;
}
