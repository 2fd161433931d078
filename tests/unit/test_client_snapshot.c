/* test_client_snapshot.c - what snapshots and their history are made of: which captures belong together, which are too
 * many, medians, factors, sparklines; which processes are picked, and the line that is said of them. */
#include "client/ui/json.h"
#include "client/snapshot/outcome.h"
#include "client/snapshot/series.h"
#include "client/snapshot/snapshot.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SECOND 1000000000ll

static cJSON *captures(const char *const *rows, size_t count)
{
	cJSON *array = cJSON_CreateArray();

	for (size_t i = 0; i < count; i++) {
		cJSON *row = cJSON_Parse(rows[i]);

		assert_non_null(row);
		cJSON_AddItemToArray(array, row);
	}
	return array;
}
#define CAPTURES(...)                                                                                                  \
	captures((const char *const[]){__VA_ARGS__}, sizeof(const char *const[]){__VA_ARGS__} / sizeof(const char *))

static void test_median(void **state)
{
	double odd[] = {5, 1, 3}, even[] = {4, 1, 3, 2};

	(void)state;
	assert_true(series_median(NULL, 0) == 0);
	assert_true(series_median(odd, 3) == 3);
	assert_true(series_median(even, 4) == 2.5);
}

static bool beyond(const char *steps, const double *earlier, size_t count)
{
	cJSON *list = cJSON_Parse(steps);
	bool is = series_is_beyond(list, earlier, count);

	cJSON_Delete(list);
	return is;
}

/* Slower than all of its snapshots; within a spread that is as large; only the last eight count; too few to tell. */
static void test_beyond(void **state)
{
	static const double even[] = {10, 11, 10.5, 10.2}, wide[] = {5, 40, 12, 30, 8};

	(void)state;
	assert_true(beyond("[15, 15.5, 15.2, 14.8, 15, 15.1, 15.2, 15.3]", even, 4));
	assert_false(beyond("[10.1, 10.6, 10.3, 10.9, 10.2, 10.4, 10.6, 10.8]", even, 4));
	assert_false(beyond("[14, 33, 9, 38, 21, 10, 35, 28]", wide, 5));
	assert_true(beyond("[10, 10, 10, 10, 10, 10, 10, 10, 15, 15.5, 15.2, 14.8, 15, 15.1, 15.2, 15.3]", even, 4));
	assert_true(beyond("[15, 15]", even, 1) && beyond("[]", even, 4) && beyond("null", even, 4));
}

static void test_factor(void **state)
{
	static const char *const wrong[] = {"",	    "x",  ".",	   "0.9x",  "0",   "1.2y",
					    "1,2x", "-2", "1.2xx", "1.2.3", "nan", "1001"};
	double factor;

	(void)state;
	assert_true(series_parse_factor("1.2x", &factor) && factor == 1.2);
	assert_true(series_parse_factor("1.25", &factor) && factor == 1.25);
	assert_true(series_parse_factor("2x", &factor) && factor == 2);
	assert_true(series_parse_factor("1", &factor) && factor == 1);
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		assert_false(series_parse_factor(wrong[i], &factor));
}

static void line_is(const double *values, size_t count, bool unicode, const char *wanted)
{
	char *line = series_sparkline(values, count, unicode);

	assert_string_equal(line, wanted);
	free(line);
}

static void test_sparkline(void **state)
{
	static const double rise[] = {0, 1, 2, 3, 4, 5, 6, 7}, gap[] = {10, -1, 20}, flat[] = {100, 100, 101},
			    zero[] = {0, 0}, none[] = {-1, -1};

	(void)state;
	line_is(rise, 8, true, "▁▂▃▄▅▆▇█");
	line_is(rise, 8, false, "_.-~=+*#");
	line_is(gap, 3, true, "▁ █");
	/* One percent is not blown up to the whole height. */
	line_is(flat, 3, false, "~~=");
	line_is(zero, 2, false, "__");
	line_is(none, 2, true, "  ");
	line_is(NULL, 0, true, "");
}

static void test_unicode(void **state)
{
	(void)state;
	unsetenv("LC_ALL");
	unsetenv("LC_CTYPE");
	unsetenv("LANG");
	assert_false(series_unicode());
	setenv("LANG", "en_US.UTF-8", 1);
	assert_true(series_unicode());
	setenv("LC_ALL", "C", 1);
	assert_false(series_unicode());
	setenv("LC_ALL", "", 1);
	setenv("LC_CTYPE", "C.utf8", 1);
	assert_true(series_unicode());
}

static void surplus_is(const cJSON *list, const struct who *who, int64_t keep, const char *wanted)
{
	cJSON *ids = series_surplus(list, who, keep);
	char *text = cJSON_PrintUnformatted(ids);

	assert_string_equal(text, wanted);
	free(text);
	cJSON_Delete(ids);
}

static void test_surplus(void **state)
{
	cJSON *list = CAPTURES(
		"{\"capture_id\":\"1\",\"uid\":7,\"job\":\"a\",\"name\":\"t\",\"rank\":0,\"pid\":1}",
		"{\"capture_id\":\"2\",\"uid\":7,\"job\":\"a\",\"name\":\"t\",\"rank\":1,\"pid\":2}",
		"{\"capture_id\":\"3\",\"uid\":7,\"job\":\"a\",\"name\":\"t\",\"rank\":0,\"pid\":1,\"pinned\":true}",
		"{\"capture_id\":\"4\",\"uid\":7,\"job\":\"a\",\"name\":\"t\",\"rank\":0,\"pid\":1}",
		"{\"capture_id\":\"5\",\"uid\":7,\"job\":\"b\",\"name\":\"t\",\"rank\":0,\"pid\":1}",
		"{\"capture_id\":\"6\",\"uid\":8,\"job\":\"a\",\"name\":\"t\",\"rank\":0,\"pid\":1}",
		"{\"capture_id\":\"7\",\"uid\":7,\"job\":\"a\",\"name\":\"t\",\"rank\":0,\"pid\":9}",
		"{\"capture_id\":\"8\",\"uid\":7,\"job\":\"a\",\"name\":\"u\",\"rank\":0,\"pid\":1}");
	struct who who = {7, "a", "t", 0, 0};

	(void)state;
	surplus_is(list, &who, 1, "[\"4\",\"1\"]");
	surplus_is(list, &who, 2, "[\"1\"]");
	surplus_is(list, &who, 3, "[]");
	who.pid = 1;
	surplus_is(list, &who, 1, "[\"1\"]");
	/* A pid that is not to be seen is no pid that is wanted. */
	who.pid = 5;
	surplus_is(list, &who, 1, "[]");
	who.pid = 0;
	who.rank = 1;
	surplus_is(list, &who, 1, "[]");
	cJSON_Delete(list);
}

static void test_needs_pid(void **state)
{
	/* Started again: one after the other. */
	cJSON *again = CAPTURES("{\"uid\":7,\"name\":\"t\",\"pid\":1}", "{\"uid\":7,\"name\":\"t\",\"pid\":1}",
				"{\"uid\":7,\"name\":\"x\",\"pid\":5}", "{\"uid\":7,\"name\":\"t\",\"pid\":2}",
				"{\"uid\":7,\"name\":\"t\",\"pid\":2}");
	cJSON *beside = CAPTURES("{\"uid\":7,\"name\":\"t\",\"pid\":1}", "{\"uid\":7,\"name\":\"t\",\"pid\":2}",
				 "{\"uid\":7,\"name\":\"t\",\"pid\":1}");
	struct who who = {7, "", "t", -1, 0};

	(void)state;
	assert_false(series_needs_pid(again, &who));
	assert_true(series_needs_pid(beside, &who));
	assert_false(series_needs_pid(NULL, &who));
	cJSON_Delete(again);
	cJSON_Delete(beside);
}

static void test_idle_step(void **state)
{
	cJSON *capture = cJSON_Parse("{\"step_ns\":50}"), *summary = cJSON_Parse("{\"cost\":{\"step_before_ns\":40}}"),
	      *unknown = cJSON_Parse("{\"cost\":{\"step_before_ns\":null}}");

	(void)state;
	assert_int_equal(series_idle_step(capture, summary), 40);
	assert_int_equal(series_idle_step(capture, unknown), 50);
	assert_int_equal(series_idle_step(capture, NULL), 50);
	cJSON_Delete(capture);
	cJSON_Delete(summary);
	cJSON_Delete(unknown);
}

/* --- picking --- */

static const char *const paths[] = {"/run/a", "/run/b"};

#define PROCESS(pid, user, name, job, rank, step, source, daemon)                                                      \
	"{\"pid\":" pid ",\"uid\":" user ",\"user\":\"u" user "\",\"name\":\"" name "\",\"job\":\"" job                \
	"\",\"rank\":" rank ",\"step_ns\":" step ",\"step_source\":\"" source "\",\"daemon\":\"" daemon "\"}"

static cJSON *processes(void)
{
	return CAPTURES(PROCESS("12", "7", "train", "j1", "1", "5000000", "profd_step", "/run/a"),
			PROCESS("11", "7", "train", "j1", "0", "5000000", "profd_step", "/run/a"),
			PROCESS("10", "7", "torchrun", "j1", "null", "null", "none", "/run/a"),
			PROCESS("20", "7", "train", "j2", "0", "9000000", "optimizer", "/run/a"),
			PROCESS("30", "8", "eval", "", "null", "1000000", "profd_step", "/run/b"),
			PROCESS("31", "8", "eval", "", "null", "1000000", "profd_step", "/run/b"),
			PROCESS("40", "9", "still", "", "null", "null", "none", "/run/a"),
			PROCESS("99", "9", "lost", "", "null", "1000000", "profd_step", "/run/c"));
}

/* "j1: 11 12" of each unit, with " | " between. */
static void picked(const struct criteria *criteria, const char *wanted, size_t wanted_fast)
{
	cJSON *list = processes();
	size_t count, fast, n = 0;
	struct unit *units = snapshot_pick(list, paths, 2, criteria, &count, &fast);
	char text[400] = "";

	for (size_t u = 0; u < count; u++) {
		n += (size_t)snprintf(text + n, sizeof text - n, "%s%s:", u ? " | " : "",
				      json_text(units[u].members[0].process, "job"));
		for (size_t i = 0; i < units[u].count; i++)
			n += (size_t)snprintf(text + n, sizeof text - n, " %lld%s", (long long)units[u].members[i].pid,
					      units[u].members[i].by_pid ? "!" : "");
	}
	assert_string_equal(text, wanted);
	assert_int_equal(fast, wanted_fast);
	snapshot_free(units, count);
	cJSON_Delete(list);
}

static void test_pick(void **state)
{
	static const int64_t pids[] = {20, 12};

	(void)state;
	/* A launcher is no part of a job that steps; a daemon that does not answer has none; who is alike is known by pid. */
	picked(&(struct criteria){0}, "j1: 11 12 | j2: 20 | : 40 | : 30! | : 31!", 0);
	picked(&(struct criteria){.name = "tr*"}, "j1: 11 12 | j2: 20", 0);
	picked(&(struct criteria){.user = "u8"}, ": 30! | : 31!", 0);
	picked(&(struct criteria){.user = "9"}, ": 40", 0);
	picked(&(struct criteria){.job = "j1"}, "j1: 11 12", 0);
	picked(&(struct criteria){.job = "j*"}, "", 0);
	picked(&(struct criteria){.pids = pids, .pid_count = 2}, "j1: 12 | j2: 20", 0);
	picked(&(struct criteria){.pids = pids, .pid_count = 2, .job = "j2"}, "j2: 20", 0);
	picked(&(struct criteria){.least_step = 5000001}, "j2: 20", 4);
	picked(&(struct criteria){.name = "train", .ranks = "1-3"}, "j1: 12", 0);
	picked(&(struct criteria){.name = "train", .ranks = "5,0"}, "j1: 11 | j2: 20", 0);
	picked(&(struct criteria){.name = "train", .one_per_job = true}, "j1: 11 | j2: 20", 0);
}

static void test_ranks(void **state)
{
	static const char *const right[] = {"0", "0,3", "0-7", "1-1,4", "10-12,3"};
	static const char *const wrong[] = {"", ",", "0,", "a", "3-1", "-1", "0 1", "0-", "1x"};

	(void)state;
	for (size_t i = 0; i < sizeof right / sizeof *right; i++)
		assert_null(snapshot_ranks_refusal(right[i]));
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		assert_non_null(snapshot_ranks_refusal(wrong[i]));
}

/* --- times --- */

static void test_times(void **state)
{
	int64_t ago, noon = 1795262400ll * SECOND; /* 2026-11-21 12:00 */

	(void)state;
	assert_false(snapshot_is_stalled(NULL, SECOND, noon, &ago));
	assert_false(snapshot_is_stalled("nonsense", SECOND, noon, &ago));
	assert_false(snapshot_is_stalled("2026-11-21T11:59:30.123456Z", SECOND / 100, noon, &ago));
	assert_true(snapshot_is_stalled("2026-11-21T11:58:00.000000Z", SECOND / 100, noon, &ago));
	assert_int_equal(ago, 120 * SECOND);
	/* Steps of half a minute. */
	assert_false(snapshot_is_stalled("2026-11-21T11:58:00.000000Z", 30 * SECOND, noon, &ago));
	assert_true(snapshot_is_stalled("2026-11-21T11:40:00.000000Z", 30 * SECOND, noon, &ago));

	assert_int_equal(snapshot_timeout(5 * SECOND, 4, SECOND), 5 * SECOND);
	assert_int_equal(snapshot_timeout(0, 4, SECOND), 120 * SECOND);
	assert_int_equal(snapshot_timeout(0, 4, 60 * SECOND), 900 * SECOND);
	assert_true(snapshot_timeout(0, 1000000, INT64_MAX / 2) > 0);

	assert_int_equal(snapshot_start(0, 4, 0, 0.9), 0);
	assert_int_equal(snapshot_start(3, 4, 100, 0), 75);
	assert_int_equal(snapshot_start(3, 4, 100, 0.5), 87);
}

/* --- lines --- */

static struct unit unit_of(struct member *members, size_t count, const char *job)
{
	for (size_t i = 0; i < count; i++) {
		char text[200];

		snprintf(text, sizeof text, "{\"name\":\"train\",\"user\":\"ann\",\"uid\":7,\"job\":\"%s\"}", job);
		members[i].process = cJSON_Parse(text);
	}
	return (struct unit){.members = members, .count = count, .deleted = cJSON_CreateArray()};
}

static void said(struct unit unit, int64_t uid, const char *who, const char *line)
{
	char *text = snapshot_describe(&unit, uid);

	assert_string_equal(text, who);
	free(text);
	text = snapshot_line(&unit);
	assert_string_equal(text, line);
	free(text);
	for (size_t i = 0; i < unit.count; i++)
		cJSON_Delete(unit.members[i].process);
	cJSON_Delete(unit.deleted);
}

static void test_lines(void **state)
{
	struct member one[] = {{.pid = 5,
				.rank = -1,
				.outcome = OUTCOME_RECORDED,
				.id = "17",
				.step = 20000000,
				.busy = -1,
				.history = -1}};
	struct member ranks[] = {
		{.pid = 5,
		 .rank = 0,
		 .outcome = OUTCOME_RECORDED,
		 .id = "u9",
		 .step = 20000000,
		 .busy = 80,
		 .history = 5,
		 .idle_step = 20000000,
		 .median = 20e6},
		{.pid = 6,
		 .rank = 1,
		 .outcome = OUTCOME_RECORDED,
		 .id = "u10",
		 .step = 24000000,
		 .busy = 87.5,
		 .history = 5,
		 .idle_step = 24000000,
		 .median = 20e6},
		{.pid = 7,
		 .rank = 2,
		 .outcome = OUTCOME_RECORDED,
		 .id = "u11",
		 .step = 21000000,
		 .busy = 82,
		 .history = 5,
		 .idle_step = 20000000,
		 .median = 20e6},
	};
	struct member mixed[] = {
		{.pid = 5,
		 .rank = 0,
		 .outcome = OUTCOME_RECORDED,
		 .id = "3",
		 .step = 20000000,
		 .busy = 0,
		 .history = 2},
		{.pid = 6, .rank = 1, .outcome = OUTCOME_SKIPPED, .busy = -1, .why = "is being recorded (capture 2)"},
	};
	struct member skipped[] = {
		{.pid = 5, .rank = 0, .outcome = OUTCOME_SKIPPED, .busy = -1, .why = "is being recorded"},
		{.pid = 6, .rank = 1, .outcome = OUTCOME_SKIPPED, .busy = -1, .why = "is being recorded"},
	};
	struct member ended[] = {{.pid = 5,
				  .rank = 3,
				  .outcome = OUTCOME_INCOMPLETE,
				  .id = "8",
				  .busy = -1,
				  .why = "the process exited"}};
	struct unit unit;

	(void)state;
	said(unit_of(one, 1, ""), 7, "train (pid 5)", "recorded, capture 17: step 20.00 ms, device busy not recorded");
	said(unit_of(ranks, 3, "77"), 8, "train of ann (job 77, 3 ranks)",
	     "recorded, captures u9 to u11: step 21.00 ms (20.00 ms to 24.00 ms), device busy 80.0% to 87.5%; "
	     "1.20x the median of its 5 snapshots");
	unit = unit_of(mixed, 2, "77");
	cJSON_AddItemToArray(unit.deleted, cJSON_CreateString("1"));
	said(unit, 7, "train (job 77, 2 ranks)",
	     "recorded, capture 3: step 20.00 ms, device busy 0.0%; no history to compare with yet: 2 of 3 snapshots; "
	     "skipped: rank 1 is being recorded (capture 2); 1 older deleted");
	struct member hidden[] = {
		{.pid = 0, .rank = -1, .outcome = OUTCOME_SKIPPED, .busy = -1, .why = "lives outside"}};
	said(unit_of(hidden, 1, ""), 7, "train", "skipped: lives outside");
	said(unit_of(skipped, 2, "77"), 7, "train (job 77, 2 ranks)", "skipped: is being recorded");
	said(unit_of(ended, 1, "77"), 7, "train (job 77, rank 3)", "incomplete, capture 8: the process exited");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_median),	  cmocka_unit_test(test_beyond),    cmocka_unit_test(test_factor),
		cmocka_unit_test(test_sparkline), cmocka_unit_test(test_unicode),   cmocka_unit_test(test_surplus),
		cmocka_unit_test(test_needs_pid), cmocka_unit_test(test_idle_step), cmocka_unit_test(test_pick),
		cmocka_unit_test(test_ranks),	  cmocka_unit_test(test_times),	    cmocka_unit_test(test_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
