/* recovery.c - see recovery.h. Thread: the one that starts the daemon, before the loop runs. No locks. */
#include "recovery.h"
#include "captures.h"
#include "catalogue.h"
#include "deleted.h"
#include "recovery_rows.h"
#include "proto/base/array.h"
#include "proto/base/log.h"
#include "daemon/core/server.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Names that are tried in lost/ before giving up. */
#define LOST_NAMES 1000

int recovery_put_aside(struct server *server, const char *name, const char *why, char ret_path[RECOVERY_PATH_BYTES])
{
	char folder[440];
	int error = -EEXIST;
	snprintf(folder, sizeof folder, "%s/lost", server->directory);
	if (mkdir(folder, server->user ? 0700 : 0750) && errno != EEXIST)
		error = -errno;
	for (unsigned i = 0; i < LOST_NAMES && error == -EEXIST; i++) {
		if (i == 0)
			snprintf(ret_path, RECOVERY_PATH_BYTES, "%s/%.100s", folder, name);
		else
			snprintf(ret_path, RECOVERY_PATH_BYTES, "%s/%.100s.%u", folder, name, i);
		error = renameat2(server->folder, name, AT_FDCWD, ret_path, RENAME_NOREPLACE) ? -errno : 0;
	}
	if (error)
		log_line("%s/%s: %s; it cannot be put aside (%s) and stays there", server->folder_path, name, why,
			 strerror(-error));
	else
		log_line("%s/%s: %s; it is now %s", server->folder_path, name, why, ret_path);
	return error;
}

struct scan {
	struct server *server;
	struct catalogue_row *rows; /* by number */
	size_t row_count;
	uint64_t last_capture;
	unsigned adopted, put_aside, gone, removed;
};

static struct catalogue_row *row_of(const struct scan *scan, uint64_t number)
{
	size_t low = ARRAY_BEFORE(scan->row_count, middle, scan->rows[middle].number < number);
	return low < scan->row_count && scan->rows[low].number == number ? &scan->rows[low] : NULL;
}

/* A finished file without a finished row gets a row, from what the file says of itself. */
static void adopt(struct scan *scan, const char *name, uint64_t number)
{
	struct server *server = scan->server;
	struct capture_facts facts;
	char why[200], path[RECOVERY_PATH_BYTES];
	int error = catalogue_from_file(catalogue_of(server), number, &facts, why, sizeof why);
	if (error == -EOPNOTSUPP) {
		log_line("%s/%s: %s; it is left alone", server->folder_path, name, why);
	} else if (error) {
		scan->put_aside += recovery_put_aside(server, name, why, path) == 0;
	} else if (catalogue_put_capture(catalogue_of(server), &facts) == 0) {
		scan->adopted++;
	}
}

static void check(struct scan *scan, const char *name, struct catalogue_row *row)
{
	struct server *server = scan->server;
	struct stat facts;
	char why[200], path[RECOVERY_PATH_BYTES], reason[REASON_BYTES];
	row->seen = true;
	if (catalogue_check_file(catalogue_of(server), row->number, &facts, why, sizeof why) == 0)
		return;
	if (recovery_put_aside(server, name, why, path))
		return;
	scan->put_aside++;
	snprintf(reason, sizeof reason, "its file is damaged: %.120s; what is left of it is %.200s", why, path);
	catalogue_spoil(catalogue_of(server), row->number, reason);
}

static void see_capture(struct scan *scan, const char *name, uint64_t number)
{
	struct catalogue_row *row = row_of(scan, number);
	if (row && row->finished && !row->failed)
		check(scan, name, row);
	else
		adopt(scan, name, number);
	if (row)
		row->seen = true;
}

static void remove_leftover(struct scan *scan, const char *name)
{
	scan->removed += unlinkat(scan->server->folder, name, 0) == 0;
}

static bool exists(const struct scan *scan, uint64_t number, const char *suffix)
{
	char name[64];
	snprintf(name, sizeof name, "%" PRIu64 "%s", number, suffix);
	return faccessat(scan->server->folder, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void see(struct scan *scan, const char *name)
{
	struct server *server = scan->server;
	struct stat facts;
	char path[RECOVERY_PATH_BYTES], *end;
	if (fstatat(server->folder, name, &facts, AT_SYMLINK_NOFOLLOW))
		return;
	if (!S_ISREG(facts.st_mode)) {
		log_line("%s/%s is no file of profd's: it is left alone", server->folder_path, name);
		return;
	}
	/* Temporary files of sorts, SQLite's and the store's, whose names were not removed in time. */
	if (strncmp(name, "etilqs_", 7) == 0 || (strncmp(name, "sort-", 5) == 0 && strstr(name, ".temporary"))) {
		remove_leftover(scan, name);
		return;
	}
	uint64_t number = strtoull(name, &end, 10);
	bool ours = end != name && *name != '0' && number <= INT64_MAX / 2;
	if (ours && number > scan->last_capture)
		scan->last_capture = number;
	if (ours && strcmp(end, ".db") == 0)
		see_capture(scan, name, number);
	else if (ours && strcmp(end, ".reserve") == 0)
		remove_leftover(scan, name);
	else if (ours && strcmp(end, ".partial") == 0)
		return; /* orphans_scan */
	else if (ours && strcmp(end, ".partial-journal") == 0 && exists(scan, number, ".partial"))
		return; /* its rollback */
	else if (ours && strcmp(end, ".partial-journal") == 0)
		remove_leftover(scan, name); /* its .partial file is gone */
	else if (ours &&
		 (strcmp(end, ".db-journal") == 0 || strcmp(end, ".db-wal") == 0 || strcmp(end, ".db-shm") == 0))
		scan->put_aside += recovery_put_aside(server, name, "a finished capture has no such file", path) == 0;
	else
		log_line("%s/%s is no file of profd's: it is left alone", server->folder_path, name);
}

static void find_missing(struct scan *scan)
{
	for (size_t i = 0; i < scan->row_count; i++) {
		const struct catalogue_row *row = &scan->rows[i];
		if (!row->finished || row->failed || row->seen || exists(scan, row->number, ".db"))
			continue;
		if (catalogue_forget(catalogue_of(scan->server), row->number, NULL,
				     "its file was not there any more when the daemon started") == 0)
			scan->gone++;
	}
}

uint64_t recovery_run(struct server *server)
{
	struct scan scan = {.server = server};
	DIR *folder = opendir(server->folder_path);
	if (!folder || catalogue_rows(catalogue_of(server), &scan.rows, &scan.row_count)) {
		log_line("%s cannot be looked through: %s", server->folder_path,
			 folder ? "the catalogue fails" : strerror(errno));
		if (folder)
			closedir(folder);
		return 0;
	}
	catalogue_recovery_begin(catalogue_of(server));
	/* The names are read first: a file that is moved while a folder is read may be seen twice, or hide others. */
	char **names = NULL;
	size_t count = 0, capacity = 0;
	for (struct dirent *entry; (entry = readdir(folder));) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (!ARRAY_GROW(names, count, capacity))
			break;
		names[count] = strdup(entry->d_name);
		/* NOLINTNEXTLINE(-Wanalyzer-malloc-leak): `names` has it */
		if (names[count])
			count++;
	}
	closedir(folder);
	for (size_t i = 0; i < count; i++) {
		see(&scan, names[i]);
		free(names[i]);
	}
	free(names);
	find_missing(&scan);
	catalogue_recovery_end(catalogue_of(server));
	free(scan.rows);
	if (scan.adopted)
		log_line("%u captures had a file and no row: they have one again", scan.adopted);
	if (scan.gone)
		log_line("%u captures had a row and no file: `profd captures --deleted` lists them", scan.gone);
	if (scan.removed)
		log_verbose("%u temporary files of an earlier daemon were removed", scan.removed);
	return scan.last_capture;
}
