/* test_client_export_chrome.c - the Chrome export of a capture that holds what is hard: names that need escaping, ranges that overlap, cross a step or
 * were closed by another thread, times before the base, losses. The schema is expanded from proto/. */
#include "client/export/export.h"
#include "client/reader/reader.h"
#include "proto/events.h"
#include "proto/version.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "export_capture.h"

static char trace[64];

static void operator_add(sqlite3 *db, int64_t id, int64_t name, int64_t thread, int64_t start, int64_t duration)
{
	run_format(db,
		   "INSERT INTO operators (flags, start, duration, self, id, name, thread, sequence) VALUES (0, %lld, "
		   "%lld, 0, %lld, %lld, %lld, -1)",
		   (long long)start, (long long)duration, (long long)id, (long long)name, (long long)thread);
}

static int export_to(const char *path, unsigned threads, char *why, size_t why_bytes)
{
	struct reader r;
	int error = reader_open(&r, open(database, O_RDONLY | O_CLOEXEC), why, why_bytes);
	if (error)
		return error;
	const struct export_options options = {.threads = threads};
	error = export_run(export_format_find("chrome"), &r, 1, &options, path, why, why_bytes);
	reader_close(&r);
	return error;
}

/* Text of a file, gzipped or not, to be freed. */
static char *read_text(const char *path)
{
	gzFile file = gzopen(path, "rb");
	assert_non_null(file);
	size_t size = 64u << 20;
	char *text = malloc(size);
	int n = gzread(file, text, (unsigned)size - 1);
	assert_true(n > 0);
	text[n] = '\0';
	assert_int_equal(gzclose(file), Z_OK); /* the CRC and the length hold */
	return text;
}

static cJSON *export_json(const char *suffix)
{
	char why[512] = "";
	snprintf(trace, sizeof trace, "%s/t%s", folder, suffix);
	if (export_to(trace, 2, why, sizeof why))
		fail_msg("%s", why);
	char *text = read_text(trace);
	cJSON *json = cJSON_ParseWithOpts(text, NULL, 1);
	assert_non_null(json);
	free(text);
	return json;
}

static const char *text_of(const cJSON *event, const char *key)
{
	const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(event, key));
	return text ? text : "";
}

static double number_of(const cJSON *event, const char *key)
{
	const cJSON *item = cJSON_GetObjectItem(event, key);
	return item ? item->valuedouble : -1;
}

/* First event of a name and phase. */
static const cJSON *find(const cJSON *json, const char *name, const char *phase)
{
	const cJSON *event;
	cJSON_ArrayForEach(
		event, cJSON_GetObjectItem(json, "traceEvents")) if (!strcmp(text_of(event, "name"), name) &&
								     !strcmp(text_of(event, "ph"), phase)) return event;
	fail_msg("no event \"%s\" of phase %s", name, phase);
	return NULL;
}

static size_t count(const cJSON *json, const char *phase)
{
	size_t n = 0;
	const cJSON *event;
	cJSON_ArrayForEach(event, cJSON_GetObjectItem(json, "traceEvents")) n += !strcmp(text_of(event, "ph"), phase);
	return n;
}

/* Every pair of slices on one track is apart, or one within the other. */
static void assert_nested(const cJSON *json)
{
	const cJSON *a, *b;
	cJSON_ArrayForEach(a, cJSON_GetObjectItem(json, "traceEvents"))
	{
		if (strcmp(text_of(a, "ph"), "X"))
			continue;
		long long start = (long long)(number_of(a, "ts") * 1000 + 0.5),
			  end = start + (long long)(number_of(a, "dur") * 1000 + 0.5);
		for (b = a->next; b; b = b->next) {
			if (strcmp(text_of(b, "ph"), "X") || number_of(a, "tid") != number_of(b, "tid"))
				continue;
			long long from = (long long)(number_of(b, "ts") * 1000 + 0.5),
				  to = from + (long long)(number_of(b, "dur") * 1000 + 0.5);
			if ((start < from && from < end && end < to) || (from < start && start < to && to < end))
				fail_msg("\"%s\" and \"%s\" overlap on track %.0f", text_of(a, "name"),
					 text_of(b, "name"), number_of(a, "tid"));
		}
	}
}

static void test_hard_capture(void **state)
{
	(void)state;
	static const char *const names[] = {"quote \" backslash \\", "control \x01\x1f newline\n tab\t",
					    "\xc3\xbc \xe2\x86\x92 \xf0\x9f\x98\x80", "</script>", ""};
	sqlite3 *db = begin_capture();
	for (int i = 0; i < 5; i++) {
		run_format(db, "INSERT INTO strings VALUES (%d, %Q)", 8 + i, names[i]);
		operator_add(db, 100 + i, 8 + i, 100, 20000 + 100 * i, 50);
	}
	run(db, "INSERT INTO strings VALUES (20, CAST(x'fffe20c3' AS TEXT)), (21, 'crosses'), (22, 'outer'), (23, "
		"'free'), (24, 'stairs'), (25, 'mark'), (26, 'early')");
	operator_add(db, 110, 20, 100, 21000, 50);
	run(db,
	    "INSERT INTO steps (step, flags, start, duration, number, thread, source, collectors) VALUES (1, 0, 0, 10000, 41, 100, 2, 7), (2, 0, 10000, 10000, 42, 100, 2, 7)");
	run(db, "INSERT INTO ranges (flags, start, duration, id, name, thread, source, payload_type, payload, color) "
		"VALUES "
		"(0, 9000, 2000, 1, 21, 100, 1, 2, -3, 4278255360), (0, -500, 40000, 2, 22, 100, 4, 0, 0, 0)");
	for (int i = 0; i < 20; i++) {
		run_format(db,
			   "INSERT INTO ranges (flags, start, duration, id, name, thread, source, end_thread) VALUES "
			   "(2, %d, 5000, %d, 23, 100, 2, 101)",
			   100 + i, 300 + i);
		run_format(db,
			   "INSERT INTO ranges (flags, start, duration, id, name, thread, source) VALUES (1, %d, 5000, "
			   "%d, 24, 200, 1)",
			   100 + i, 400 + i);
	}
	run(db, "INSERT INTO marks (flags, time, name, thread, source) VALUES (0, 700, 25, 100, 3)");
	run(db, "INSERT INTO threads VALUES (NULL, 0, 1, 100, 8, 1)");
	run(db, "INSERT INTO meta VALUES ('rank', 3), ('world_size', 8)");
	run(db, "INSERT INTO losses VALUES ('operator', 'no_space', 5, 1, 'dropped')");
	end_capture(db);

	cJSON *json = export_json(".json"), *packed = export_json(".json.gz");
	assert_true(cJSON_Compare(json, packed, 1));
	cJSON_Delete(packed);
	for (int i = 0; i < 5; i++)
		assert_string_equal(text_of(find(json, names[i], "X"), "cat"), "cpu_op");
	find(json, "\xef\xbf\xbd\xef\xbf\xbd \xef\xbf\xbd", "X");
	assert_nested(json);
	assert_true(number_of(find(json, "ProfilerStep#41", "X"), "tid") == 100);
	assert_true(number_of(find(json, "outer", "X"), "tid") == 100);
	assert_true(number_of(find(json, "outer", "X"), "ts") == 0); /* the earliest event is where times begin */
	assert_true(number_of(json, "baseTimeNanoseconds") == 1767225600000000000.0 - 500);
	assert_true(number_of(find(json, "crosses", "X"), "tid") != 100);
	assert_true(number_of(cJSON_GetObjectItem(find(json, "crosses", "X"), "args"), "payload") == -3);
	assert_string_equal(text_of(cJSON_GetObjectItem(find(json, "crosses", "X"), "args"), "color"), "#FF00FF00");
	/* 20 start/end ranges and what 16 tracks do not hold of the 20 overlapping ones. */
	assert_int_equal(count(json, "b"), 20 + 4);
	assert_int_equal(count(json, "e"), 20 + 4);
	/* The last is the breakdown's: nothing is known of the step thread. */
	assert_int_equal(count(json, "X"), 6 + 2 + 2 + 16 + 1);
	assert_int_equal(count(json, "i"), 2);
	find(json, "profd: 5 events were dropped; see \"profd\" in the metadata", "i");
	assert_true(number_of(cJSON_GetObjectItem(json, "distributedInfo"), "rank") == 3);
	cJSON_Delete(json);
}

static void test_flows(void **state)
{
	(void)state;
	sqlite3 *db = begin_capture();
	run(db, "INSERT INTO strings VALUES (8, 'aten::linear'), (9, 'aten::addmm'), (10, 'engine'), (11, "
		"'AddmmBackward0')");
	run(db, "INSERT INTO threads VALUES (NULL, 0, 1, 100, NULL, 1), (NULL, 0, 2, 101, NULL, 2)");
	run(db,
	    "INSERT INTO operators (flags, start, duration, id, name, thread, scope, sequence, forward_thread) VALUES "
	    "(0, 20, 50, 2, 9, 100, 0, 7, NULL), (0, 10, 70, 1, 8, 100, 0, 7, NULL), "
	    "(0, 220, 50, 4, 11, 101, 1, 7, 1), (0, 210, 70, 3, 10, 101, 0, 7, 1), "
	    "(0, 300, 50, 5, 11, 101, 1, 8, 1)"); /* its forward was not recorded */
	end_capture(db);
	cJSON *json = export_json(".json");
	assert_int_equal(count(json, "s"), 1);
	assert_int_equal(count(json, "f"), 1);
	assert_true(number_of(find(json, "fwdbwd", "s"), "ts") == 0.020);
	assert_true(number_of(find(json, "fwdbwd", "s"), "tid") == 100);
	assert_true(number_of(find(json, "fwdbwd", "f"), "ts") == 0.220);
	assert_true(number_of(find(json, "fwdbwd", "f"), "tid") == 101);
	cJSON_Delete(json);
}

/* More rows than one job has: every one is there, whatever the number of threads. */
static void test_many(void **state)
{
	(void)state;
	char why[512];
	sqlite3 *db = begin_capture();
	run(db, "INSERT INTO strings VALUES (8, 'op')");
	run(db, "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 49999) INSERT INTO operators "
		"(flags, start, duration, id, name, thread, sequence) SELECT 0, i * 10, 5, i + 1, 8, 100 + i % 3, -1 "
		"FROM n");
	end_capture(db);
	char *first = NULL;
	for (unsigned threads = 1; threads <= 4; threads++) {
		snprintf(trace, sizeof trace, "%s/many.json.gz", folder);
		assert_int_equal(export_to(trace, threads, why, sizeof why), 0);
		char *text = read_text(trace);
		if (!first) {
			size_t rows = 0;
			const char *end = text + strlen(text);
			/* Not strstr: a sanitizer measures all of the rest for each of its calls. */
			for (const char *at = text; (at = memmem(at, (size_t)(end - at), "\"cpu_op\"", 8)); at++)
				rows++;
			assert_int_equal(rows, 50000);
			first = text;
			continue;
		}
		assert_string_equal(text, first);
		free(text);
	}
	free(first);
}

static void test_refusals(void **state)
{
	(void)state;
	char why[512] = "", path[96];
	struct stat st;
	assert_string_equal(export_format_by_suffix("a.json.gz")->name, "chrome");
	assert_null(export_format_by_suffix("a.txt"));
	sqlite3 *db = begin_capture();
	sqlite3_close(db);
	snprintf(trace, sizeof trace, "%s/no.json", folder);
	assert_int_equal(export_to(trace, 0, why, sizeof why), -EINVAL); /* not finished */
	db = begin_capture();
	run_format(db, "PRAGMA user_version = %d", CAPTURE_SCHEMA_VERSION + 1);
	end_capture(db);
	assert_int_equal(export_to(trace, 0, why, sizeof why), -ENOTSUP);

	db = begin_capture();
	run(db, "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 49999) INSERT INTO operators "
		"(flags, start, duration, id, name, thread, sequence) SELECT 0, i * 10, 5, i + 1, 8, 100, -1 FROM n");
	end_capture(db);
	assert_int_equal(export_to("/dev/full", 2, why, sizeof why), -ENOSPC);
	snprintf(path, sizeof path, "%s/none/t.json", folder);
	assert_int_equal(export_to(path, 2, why, sizeof why), -ENOENT);

	/* A file that is cut while it is read: an error, and no trace. */
	struct reader r;
	assert_int_equal(reader_open(&r, open(database, O_RDONLY | O_CLOEXEC), why, sizeof why), 0);
	assert_int_equal(truncate(database, 100 * 1024), 0);
	const struct export_options options = {0};
	assert_int_equal(export_run(export_format_find("chrome"), &r, 1, &options, trace, why, sizeof why), -EIO);
	reader_close(&r);
	assert_int_equal(stat(trace, &st), -1);
	snprintf(path, sizeof path, "%s.tmp", trace);
	assert_int_equal(stat(path, &st), -1);
}

static size_t written_count;
static struct export_options written_options;

static int write_nothing(struct reader *readers, size_t count, const struct export_options *options,
			 struct stream *stream, char *why, size_t why_bytes)
{
	(void)readers, (void)stream, (void)why, (void)why_bytes;
	written_count = count;
	written_options = *options;
	return 0;
}

/* What a format cannot do it refuses before a file is touched; the rest reaches it. */
static void test_abilities(void **state)
{
	(void)state;
	static const uint32_t device = 1;
	static const struct {
		unsigned ability;
		size_t count;
		struct export_options options;
		const char *word;
	} rows[] = {
		{EXPORT_SEVERAL, 2, {0}, "one capture"},
		{EXPORT_PART, 1, {.first_step = 2, .last_step = 3}, "all steps"},
		{EXPORT_PART, 1, {.begin = 5, .end = 9}, "whole time"},
		{EXPORT_PART, 1, {.range = "forward"}, "whole time"},
		{EXPORT_PART, 1, {.devices = &device, .device_count = 1}, "all devices"},
	};
	struct export_format format = {"none", ".none", "{name}.none", false, 0, write_nothing};
	char why[512], path[96];
	struct reader r[2] = {0};
	struct stat st;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		snprintf(path, sizeof path, "%s/t.none", folder);
		format.abilities = ~rows[i].ability;
		assert_int_equal(export_run(&format, r, rows[i].count, &rows[i].options, path, why, sizeof why),
				 -ENOTSUP);
		assert_non_null(strstr(why, rows[i].word));
		assert_int_equal(stat(path, &st), -1);
		size_t formats;
		const struct export_format *all = export_formats(&formats);
		for (size_t k = 0; k < formats; k++)
			assert_int_equal(!(all[k].abilities & rows[i].ability),
					 export_refusal(&all[k], rows[i].count, &rows[i].options, "t") != NULL);
		format.abilities = rows[i].ability;
		assert_int_equal(export_run(&format, r, rows[i].count, &rows[i].options, path, why, sizeof why), 0);
		assert_int_equal(written_count, rows[i].count);
		assert_memory_equal(&written_options, &rows[i].options, sizeof written_options);
		unlink(path);
	}
	const struct export_options all = {0}, packed = {.compression = EXPORT_COMPRESSION_GZIP};
	assert_non_null(strstr(export_refusal(&format, 1, &all, "t.none.gz"), "leave out .gz"));
	assert_non_null(export_refusal(&format, 1, &packed, "-"));
	assert_null(export_refusal(&format, 1, &all, "t.none"));
	format.gzip = true;
	assert_null(export_refusal(&format, 1, &all, "t.none.gz"));
	assert_null(export_format_find("none"));
}

static int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(database, sizeof database, "%s/c.db", folder);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	static const char *const files[] = {"c.db", "t.json", "t.json.gz", "many.json.gz"};
	char path[96];
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		snprintf(path, sizeof path, "%s/%s", folder, files[i]);
		unlink(path);
	}
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hard_capture), cmocka_unit_test(test_flows),     cmocka_unit_test(test_many),
		cmocka_unit_test(test_refusals),     cmocka_unit_test(test_abilities),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
