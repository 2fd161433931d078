/* test_store_findings.c - the verdict on timelines that are made up: small ones with a known answer, and random ones, in which findings never
 * overlap and never add up to more than the step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/events.h"
#include "store/findings/findings.h"
#include "store/findings/line.h"
#include "store/findings/places.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000
#define MOST 4096

struct timeline {
	struct breakdown_capture capture;
	struct breakdown_step steps[64];
	int64_t numbers[64];
	struct breakdown_call calls[MOST];
	struct breakdown_operation operations[MOST];
};

static sqlite3 *names(void)
{
	sqlite3 *db;
	assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
	assert_int_equal(
		sqlite3_exec(
			db,
			"CREATE TABLE strings (id INTEGER PRIMARY KEY, text TEXT); CREATE TABLE kernel_names (mangled "
			"INTEGER, name INTEGER, short INTEGER); INSERT INTO strings VALUES (1, 'aten::item'), (2, "
			"'cudaStreamSynchronize'), (3, 'aten::mul_'), (4, 'aten::mm')",
			NULL, NULL, NULL),
		SQLITE_OK);
	return db;
}

static struct timeline *timeline(size_t steps, int64_t wall)
{
	struct timeline *made = calloc(1, sizeof *made);
	struct breakdown *breakdown = &made->capture.breakdown;
	made->capture.host = made->capture.device = true;
	made->capture.numbers = made->numbers;
	breakdown->steps = made->steps;
	breakdown->calls = made->calls;
	breakdown->operations = made->operations;
	breakdown->step_thread = 1;
	breakdown->has_operators = true;
	breakdown->activity = &made->capture.activity;
	for (size_t i = 0; i < steps; i++) {
		int64_t start = (int64_t)i * wall;
		made->steps[breakdown->step_count++] =
			(struct breakdown_step){.start = start, .end = start + wall, .annotated = start + wall};
		made->numbers[i] = (int64_t)i + 100;
	}
	return made;
}

/* A call from `start` to `end`, and what it launches. */
static void launch(struct timeline *to, int64_t start, int64_t end, int64_t from, int64_t until)
{
	struct breakdown *breakdown = &to->capture.breakdown;
	to->calls[breakdown->call_count] = (struct breakdown_call){.start = start, .end = end, .thread = 1};
	to->operations[breakdown->operation_count++] =
		(struct breakdown_operation){.start = from, .end = until, .call = breakdown->call_count++};
	activity_add(&to->capture.activity, 1, start, end, DOING_LAUNCH);
}

/* Each step: one launch `late` ns behind its begin, of work that lasts until its end. */
static void launch_late(struct timeline *to, int64_t late)
{
	for (size_t i = 0; i < to->capture.breakdown.step_count; i++) {
		int64_t at = to->steps[i].start + late;
		launch(to, at, at + 1000, at + 1000, to->steps[i].end);
	}
}

/* sql: what else the file holds; NULL: nothing. */
static struct findings *judge_with(struct timeline *of, const char *sql)
{
	struct findings *findings = calloc(1, sizeof *findings);
	sqlite3 *db = names();
	int error;
	assert_int_equal(sqlite3_exec(db, sql ? sql : "", NULL, NULL, NULL), SQLITE_OK);
	assert_true(activity_build(&of->capture.activity));
	assert_true(breakdown_make(&of->capture.breakdown));
	assert_true(findings_make(&of->capture, db, NULL, findings, &error));
	sqlite3_close(db);
	return findings;
}

static struct findings *judge(struct timeline *of)
{
	return judge_with(of, NULL);
}

static void done(struct timeline *timeline, struct findings *findings)
{
	breakdown_free(&timeline->capture.breakdown);
	activity_free(&timeline->capture.activity);
	free(timeline);
	free(findings);
}

/* Each step: 4 ms in the loader, then one launch of 6 ms of work. */
static void test_input(void **state)
{
	(void)state;
	struct timeline *timeline_ = timeline(4, 10 * MS);
	for (int64_t i = 0; i < 4; i++)
		activity_mark(&timeline_->capture.activity, 1, i * 10 * MS, i * 10 * MS + 4 * MS, PHASE_INPUT);
	launch_late(timeline_, 4 * MS);
	struct findings *findings = judge(timeline_);
	assert_int_equal(findings->count, 1);
	assert_int_equal(findings->items[0].kind, FINDING_INPUT);
	assert_int_equal(findings->items[0].ns, 4 * MS);
	assert_int_equal(findings->judged, 4);
	done(timeline_, findings);
}

/* Workers that keep up: the thread is in the loader for 4 of 10 ms, and sleeps for less than half of that. */
static void test_input_that_is_ready(void **state)
{
	(void)state;
	for (int ready = 0; ready < 2; ready++) {
		char sql[512];
		struct timeline *timeline_ = timeline(4, 10 * MS);
		timeline_->capture.device = false;
		for (int64_t i = 0; i < 4; i++) {
			activity_mark(&timeline_->capture.activity, 1, i * 10 * MS, i * 10 * MS + 4 * MS, PHASE_INPUT);
			activity_add_named(&timeline_->capture.activity, 1, i * 10 * MS + 4 * MS, (i + 1) * 10 * MS,
					   DOING_OPERATOR, 4);
		}
		snprintf(
			sql, sizeof sql,
			"INSERT INTO strings VALUES (5, 'enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__'); CREATE "
			"TABLE thread_times (thread INTEGER, time INTEGER, cpu INTEGER, waited INTEGER, voluntary INTEGER, involuntary "
			"INTEGER); INSERT INTO thread_times VALUES (1, -1, 0, 0, 0, 0), (1, 40000001, %d, 1000000, 9, 0)",
			ready ? 35000000 : 25000000);
		struct findings *findings = judge_with(timeline_, sql);
		assert_int_equal(findings->items[0].kind, FINDING_INPUT);
		assert_int_equal(strstr(findings->items[0].evidence, "hardly waits for them") != NULL, ready);
		assert_int_equal(strstr(findings->items[0].evidence, "do not keep up") == NULL, ready);
		assert_int_equal(strstr(findings->items[0].advice, "More workers do not help") != NULL, ready);
		done(timeline_, findings);
	}
}

/* The same loader, but the device has work of the step before meanwhile: nothing is lost. */
static void test_hidden_input(void **state)
{
	(void)state;
	struct timeline *timeline_ = timeline(4, 10 * MS);
	for (int64_t i = 0; i < 4; i++) {
		activity_mark(&timeline_->capture.activity, 1, i * 10 * MS, i * 10 * MS + 4 * MS, PHASE_INPUT);
		launch(timeline_, i * 10 * MS + 4 * MS, i * 10 * MS + 4 * MS + 1000, i * 10 * MS + 5 * MS,
		       (i + 1) * 10 * MS + 5 * MS);
	}
	struct findings *findings = judge(timeline_);
	/* The first step begins with an idle device. */
	for (size_t i = 0; i < findings->count; i++)
		assert_int_not_equal(findings->items[i].kind, FINDING_INPUT);
	done(timeline_, findings);
}

/* Each step waits 6 ms for its work, and the host then takes 3 ms to launch the next. */
static void test_wait(void **state)
{
	(void)state;
	struct timeline *timeline_ = timeline(4, 10 * MS);
	struct activity *activity = &timeline_->capture.activity;
	for (int64_t i = 0; i < 4; i++) {
		int64_t at = i * 10 * MS;
		activity_add_named(activity, 1, at, at + 3 * MS, DOING_OPERATOR, 4);
		launch(timeline_, at + 3 * MS, at + 3 * MS + 1000, at + 3 * MS + 1000, at + 9 * MS);
		activity_add_named(activity, 1, at + 3 * MS + 2000, at + 10 * MS, DOING_OPERATOR, 1);
		activity_add_named(activity, 1, at + 3 * MS + 3000, at + 9 * MS + 1000, DOING_SYNC, 2);
	}
	struct findings *findings = judge(timeline_);
	assert_true(findings->count >= 1);
	assert_int_equal(findings->items[0].kind, FINDING_SYNC);
	assert_string_equal(findings->items[0].subject, "aten::item");
	/* All of what is idle after it: 1 ms to the end of the step, and 3 ms of the next. */
	assert_in_range(findings->items[0].ns, 39 * MS / 10, 41 * MS / 10);
	done(timeline_, findings);
}

/* 1,000 short operations a step, each launched when the device has nothing to do. */
static void test_launch_bound(void **state)
{
	(void)state;
	struct timeline *timeline_ = timeline(3, 10 * MS);
	for (int64_t i = 0; i < 3000; i++)
		launch(timeline_, i * 10000, i * 10000 + 7000, i * 10000 + 6000, i * 10000 + 10000);
	struct findings *findings = judge(timeline_);
	assert_int_equal(findings->count, 1);
	assert_int_equal(findings->items[0].kind, FINDING_LAUNCH);
	assert_in_range(findings->items[0].ns, 59 * MS / 10, 6 * MS);
	done(timeline_, findings);
}

/* One kernel that fills each step. */
static void test_nothing(void **state)
{
	(void)state;
	struct timeline *timeline_ = timeline(3, 10 * MS);
	for (int64_t i = 0; i < 3; i++)
		launch(timeline_, i * 10 * MS, i * 10 * MS + 5000, i * 10 * MS + 6000, (i + 1) * 10 * MS);
	struct findings *findings = judge(timeline_);
	assert_int_equal(findings->count, 0);
	assert_string_equal(findings->abstains, "");
	assert_string_equal(findings->verdict, "Nothing stands out.");
	done(timeline_, findings);
}

/* The queue fills: each step launches twice as much as is done in it. */
static void test_unbalanced(void **state)
{
	(void)state;
	struct timeline *timeline_ = timeline(3, 10 * MS);
	for (int64_t i = 0; i < 3; i++)
		launch(timeline_, i * 10 * MS, i * 10 * MS + 5000, i * 20 * MS + 6000, (i + 1) * 20 * MS);
	struct findings *findings = judge(timeline_);
	assert_int_equal(findings->count, 0);
	assert_non_null(strstr(findings->abstains, "Record more steps"));
	done(timeline_, findings);
}

/* Five equal steps, and one that takes three times as long. */
static void test_unlike(void **state)
{
	(void)state;
	struct timeline *timeline_ = timeline(6, 10 * MS);
	timeline_->capture.device = false;
	timeline_->steps[5].end = timeline_->steps[5].annotated = timeline_->steps[5].start + 30 * MS;
	for (size_t i = 0; i < 6; i++)
		activity_add_named(&timeline_->capture.activity, 1, timeline_->steps[i].start, timeline_->steps[i].end,
				   DOING_OPERATOR, 4);
	struct findings *findings = judge(timeline_);
	assert_int_equal(findings->count, 1);
	assert_int_equal(findings->items[0].kind, FINDING_UNLIKE);
	assert_int_equal(findings->items[0].step, 6);
	assert_string_equal(findings->items[0].subject, "other operators");
	assert_int_equal(findings->judged, 5);
	done(timeline_, findings);
}

/* One of six is longer. */
static struct findings *judge_longer(struct timeline *timeline_, const char *looks)
{
	char sql[512];
	timeline_->capture.device = false;
	timeline_->steps[5].end = timeline_->steps[5].annotated = timeline_->steps[5].start + 30 * MS;
	for (size_t i = 0; i < 6; i++)
		activity_add_named(&timeline_->capture.activity, 1, timeline_->steps[i].start, timeline_->steps[i].end,
				   DOING_OPERATOR, 4);
	snprintf(
		sql, sizeof sql,
		"CREATE TABLE thread_times (thread INTEGER, time INTEGER, cpu INTEGER, waited INTEGER, voluntary INTEGER, involuntary "
		"INTEGER); INSERT INTO thread_times VALUES (1, -1, 0, 0, 0, 0), %s",
		looks);
	struct findings *findings = judge_with(timeline_, sql);
	assert_true(findings->count > 0);
	return findings;
}

static const struct finding *unlike(const struct findings *findings)
{
	size_t i = 0;
	while (i < findings->count && findings->items[i].kind != FINDING_UNLIKE)
		i++;
	assert_true(i < findings->count);
	return &findings->items[i];
}

/* Its thread had no processor for 12 ms of it: that is told, and not what the step might have done. */
static void test_unlike_without_a_processor(void **state)
{
	(void)state;
	struct timeline *timeline_ = timeline(6, 10 * MS);
	struct findings *findings =
		judge_longer(timeline_, "(1, 50000000, 50000000, 0, 0, 0), (1, 80000000, 68000000, 12000000, 0, "
					"40), (1, 90000000, 78000000, 12000000, 0, 40)");
	assert_non_null(strstr(unlike(findings)->evidence, " In it the step's thread waited 12.0 ms for a processor."));
	assert_non_null(strstr(unlike(findings)->advice, "see what else ran on the machine"));
	done(timeline_, findings);
	/* The others wait for 5 ms each, too. */
	timeline_ = timeline(6, 10 * MS);
	findings = judge_longer(
		timeline_, "(1, 50000000, 25000000, 25000000, 0, 0), (1, 80000000, 43000000, 37000000, 0, 40), (1, "
			   "90000000, 53000000, 37000000, 0, 40)");
	assert_null(strstr(unlike(findings)->evidence, "for a processor"));
	done(timeline_, findings);
	/* It evaluates meanwhile. */
	timeline_ = timeline(6, 10 * MS);
	activity_mark(&timeline_->capture.activity, 1, 55 * MS, 70 * MS, PHASE_EVALUATION);
	findings = judge_longer(
		timeline_, "(1, 50000000, 50000000, 0, 0, 0), (1, 80000000, 68000000, 12000000, 0, 40), (1, 90000000, "
			   "78000000, 12000000, 0, 40)");
	assert_null(strstr(unlike(findings)->evidence, "for a processor"));
	done(timeline_, findings);
}

/* Half of each step lies between short operators, all of them in one forward: in no row "outside of operators". That the thread had its
 * processor all the time is known, or not. */
static void test_outside_within_a_phase(void **state)
{
	(void)state;
	for (int looked = 0; looked < 2; looked++) {
		struct timeline *timeline_ = timeline(4, 10 * MS);
		timeline_->capture.device = false;
		activity_mark(&timeline_->capture.activity, 1, 0, 40 * MS, PHASE_FORWARD);
		for (int64_t at = 0; at < 40 * MS; at += MS / 10)
			activity_add_named(&timeline_->capture.activity, 1, at, at + MS / 20, DOING_OPERATOR, 4);
		struct findings *findings = judge_with(
			timeline_,
			looked ? "CREATE TABLE thread_times (thread INTEGER, time INTEGER, cpu INTEGER, waited "
				 "INTEGER, voluntary INTEGER, involuntary INTEGER); INSERT INTO thread_times VALUES "
				 "(1, -1, 0, 0, 0, 0), (1, 40000001, 40000002, 0, 0, 0); CREATE TABLE meta (key TEXT, value TEXT); INSERT INTO meta VALUES ('agent_version', '1'); CREATE TABLE collectors (collector TEXT, ran INTEGER)"
			       : NULL);
		assert_int_equal(findings->count, 1);
		assert_int_equal(findings->items[0].kind, FINDING_OUTSIDE);
		assert_string_equal(
			findings->items[0].what,
			looked ? "The step's thread is in Python, outside of operators"
			       : "The step's thread is outside of operators: Python, or waiting for a processor");
		assert_non_null(strstr(findings->items[0].evidence, "Most of it lies within forward"));
		/* An agent could record its lines. */
		assert_int_equal(strstr(findings->items[0].advice, "With trigger --stacks") != NULL, looked);
		done(timeline_, findings);
	}
}

/* In each step all of Python's objects are gone through for 3 of 10 ms, and in `more` of them once again, which nobody saw. */
static void test_garbage(void **state)
{
	(void)state;
	for (int64_t more = 0; more < 3; more += 2) {
		struct collection seen[4];
		struct timeline *timeline_ = timeline(4, 10 * MS);
		timeline_->capture.device = false;
		timeline_->capture.collections = (struct collections){.items = seen, .count = 4};
		for (int64_t i = 0; i < 4; i++) {
			int64_t start = i * 10 * MS + 2 * MS, end = start + 3 * MS;
			activity_add_named(&timeline_->capture.activity, 1, i * 10 * MS, (i + 1) * 10 * MS,
					   DOING_OPERATOR, 4);
			seen[i] =
				(struct collection){.start = start, .end = end, .thread = 1, .generation = GARBAGE_ALL};
			timeline_->steps[i].collections = 1 + (i < more);
		}
		collections_mark(&timeline_->capture.collections, &timeline_->capture.activity);
		struct findings *findings = judge(timeline_);
		assert_int_equal(findings->count, 1);
		assert_int_equal(findings->items[0].kind, FINDING_GARBAGE);
		assert_int_equal(findings->items[0].ns, 3 * MS);
		assert_non_null(strstr(findings->items[0].evidence,
				       "Seen 4 times in 4 of 4 steps; the longest took 3.0 ms. 4 times Python went"));
		assert_int_equal(strstr(findings->items[0].evidence, "Python counted 6 full") != NULL, more != 0);
		done(timeline_, findings);
	}
}

/* One of four evaluates. The others are judged by themselves, however few more it takes. */
static void test_evaluates(void **state)
{
	(void)state;
	struct timeline *timeline_ = timeline(4, 10 * MS);
	timeline_->capture.device = false;
	timeline_->steps[3].end = timeline_->steps[3].annotated = timeline_->steps[3].start + 15 * MS;
	for (size_t i = 0; i < 4; i++)
		activity_add_named(&timeline_->capture.activity, 1, timeline_->steps[i].start, timeline_->steps[i].end,
				   DOING_OPERATOR, 4);
	activity_mark(&timeline_->capture.activity, 1, timeline_->steps[3].start, timeline_->steps[3].start + 5 * MS,
		      PHASE_EVALUATION);
	struct findings *findings = judge(timeline_);
	assert_int_equal(findings->count, 1);
	assert_int_equal(findings->items[0].kind, FINDING_UNLIKE);
	assert_int_equal(findings->items[0].step, 4);
	assert_non_null(strstr(findings->items[0].evidence, "1 of 4 steps. It holds an evaluation of 5"));
	assert_int_equal(findings->judged, 3);
	assert_int_equal(findings->step_ns, 10 * MS);
	done(timeline_, findings);
}

static int64_t draw(uint64_t *seed, int64_t below)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (int64_t)((*seed >> 33) % (uint64_t)below);
}

static struct timeline *random_timeline(uint64_t seed)
{
	int64_t wall = 1000000 + draw(&seed, 9000000), steps = 1 + draw(&seed, 6), all = wall * steps;
	struct timeline *made = timeline((size_t)steps, wall);
	made->capture.device = draw(&seed, 5) != 0;
	for (int64_t i = draw(&seed, 60); i > 0; i--) {
		int64_t start = draw(&seed, all);
		activity_add_named(&made->capture.activity, (uint32_t)(1 + draw(&seed, 2)), start,
				   start + draw(&seed, wall), (enum doing)draw(&seed, DOING_OUTSIDE),
				   (uint32_t)draw(&seed, 5));
	}
	for (int64_t i = draw(&seed, 6); i > 0; i--) {
		int64_t start = draw(&seed, all);
		activity_mark(&made->capture.activity, 1, start, start + draw(&seed, wall),
			      (enum phase)draw(&seed, PHASE_COUNT));
	}
	for (int64_t i = made->capture.device ? draw(&seed, 80) : 0; i > 0; i--) {
		int64_t start = draw(&seed, all), from = start + draw(&seed, 100000);
		launch(made, start, start + draw(&seed, 20000), from, from + draw(&seed, wall / 4));
		struct breakdown_operation *operation = &made->operations[made->capture.breakdown.operation_count - 1];
		operation->row = (uint8_t)draw(&seed, DEVICE_IDLE);
		operation->device = draw(&seed, 2);
		operation->kind =
			operation->row == DEVICE_COMPUTE ? (uint8_t)draw(&seed, OPERATION_PAGEABLE) : OPERATION_PLAIN;
		made->calls[made->capture.breakdown.call_count - 1].pageable = draw(&seed, 8) == 0;
	}
	return made;
}

static void check_intervals(const struct findings *findings)
{
	for (size_t a = 0; a < findings->count; a++) {
		if (findings->items[a].kind == FINDING_UNLIKE)
			continue;
		for (size_t b = a + 1; b < findings->count; b++) {
			for (size_t i = 0; i < findings->items[a].interval_count; i++) {
				for (size_t j = 0; j < findings->items[b].interval_count; j++) {
					const struct finding_interval *x = &findings->items[a].intervals[i],
								      *y = &findings->items[b].intervals[j];
					assert_true(x->end <= y->start || y->end <= x->start);
				}
			}
		}
	}
}

/* A thread that runs and waits half of the time each, as it was looked at every `every` ns; `more` adds to the file. */
static struct findings *judge_waiting(struct timeline *of, int64_t every, const char *more)
{
	char sql[1024];
	snprintf(
		sql, sizeof sql,
		"CREATE TABLE meta (key TEXT PRIMARY KEY, value); CREATE TABLE thread_times (thread, time, cpu, waited, voluntary, "
		"involuntary); WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 200) INSERT INTO thread_times SELECT 1, "
		"-%lld + i * %lld, i * %lld, i * %lld, i, 2 * i FROM n; %s",
		(long long)every, (long long)every, (long long)(every / 2), (long long)(every / 2), more);
	return judge_with(of, sql);
}

static void in_operators(struct timeline *of)
{
	const struct breakdown *breakdown = &of->capture.breakdown;
	for (size_t i = 0; i < breakdown->step_count; i++)
		activity_add(&of->capture.activity, 1, of->steps[i].start, of->steps[i].end, DOING_OPERATOR);
}

/* Without a device: what the thread waited for a processor, and why. */
static void test_processor(void **state)
{
	(void)state;
	static const struct {
		const char *meta, *evidence, *advice;
	} whys[] = {
		{"", "its processor was taken from it 20 times a step. This", "Give the job more processors"},
		{"INSERT INTO meta VALUES ('processors', 64), ('processors_allowed', 64)",
		 "The machine has 64 processors.", "Give the job"},
		{"INSERT INTO meta VALUES ('processors', 64), ('processors_allowed', 4)",
		 "It may run on 4 of 64 processors.", "--cpus-per-task"},
		{"INSERT INTO meta VALUES ('processors', 64), ('processors_allowed', 4), ('processors_limit', 2500), "
		 "('quota_periods', 200), ('quota_stopped', 180)",
		 "may use 2.5 processors, and used that up and was stopped in 90 %", "limits.cpu"},
		/* Seldom: that is not why. */
		{"INSERT INTO meta VALUES ('processors', 64), ('processors_allowed', 4), ('processors_limit', 2500), "
		 "('quota_periods', 200), ('quota_stopped', 1)",
		 "It may run on 4 of 64", "--cpus-per-task"},
		{"INSERT INTO meta VALUES ('processors', -1), ('processors_limit', 'x'), ('quota_periods', 9223372036854775807), "
		 "('quota_stopped', 9223372036854775807)",
		 "times a step. This", "Give the job"},
	};
	for (size_t i = 0; i < sizeof whys / sizeof *whys; i++) {
		struct timeline *timeline_ = timeline(4, 10 * MS);
		in_operators(timeline_);
		struct findings *findings = judge_waiting(timeline_, MS, whys[i].meta);
		assert_int_equal(findings->count, 1);
		assert_int_equal(findings->items[0].kind, FINDING_PROCESSOR);
		assert_int_equal(findings->items[0].ns, 5 * MS);
		assert_int_equal(findings->items[0].interval_count, 4);
		assert_non_null(strstr(findings->items[0].evidence, whys[i].evidence));
		assert_non_null(strstr(findings->items[0].advice, whys[i].advice));
		done(timeline_, findings);
	}
}

/* Looks that are too far apart for one step tell of all steps together, and those that are too far apart for these tell nothing. */
static void test_processor_seldom_looked_at(void **state)
{
	(void)state;
	struct timeline *timeline_ = timeline(20, 10 * MS);
	in_operators(timeline_);
	struct findings *findings = judge_waiting(timeline_, 20 * MS, "");
	assert_int_equal(findings->items[0].kind, FINDING_PROCESSOR);
	assert_int_equal(findings->items[0].ns, 5 * MS);
	assert_non_null(strstr(findings->items[0].evidence, "(all steps taken together)"));
	done(timeline_, findings);
	timeline_ = timeline(20, 10 * MS);
	in_operators(timeline_);
	findings = judge_waiting(timeline_, 1000 * MS, "");
	assert_int_equal(findings->count, 0);
	done(timeline_, findings);
}

/* With a device no more can be won than it waited for the host: 3 of 10 ms, of which the thread waited 5. */
static void test_processor_beside_a_device(void **state)
{
	(void)state;
	struct timeline *timeline_ = timeline(4, 10 * MS);
	for (int64_t i = 0; i < 4; i++)
		activity_add(&timeline_->capture.activity, 1, i * 10 * MS, i * 10 * MS + 3 * MS, DOING_OPERATOR);
	launch_late(timeline_, 3 * MS);
	struct findings *findings = judge_waiting(timeline_, MS, "");
	assert_int_equal(findings->count, 2);
	assert_int_equal(findings->items[0].ns / 100000, findings->items[1].ns / 100000);
	assert_null(strstr(findings->items[0].evidence, "can be won once"));
	assert_non_null(strstr(findings->items[1].evidence, "of it is in finding 1, too, and can be won once."));
	for (size_t i = 0; i < 2; i++)
		if (findings->items[i].kind == FINDING_PROCESSOR)
			assert_true(findings->items[i].ns <= 3 * MS + 1000 && findings->items[i].ns >= 3 * MS - 1000);
	assert_true((findings->items[0].kind == FINDING_PROCESSOR) != (findings->items[1].kind == FINDING_PROCESSOR));
	done(timeline_, findings);
	/* A device that never waits loses nothing to it. */
	timeline_ = timeline(4, 10 * MS);
	launch(timeline_, 0, 1000, 0, 40 * MS);
	findings = judge_waiting(timeline_, MS, "");
	assert_int_equal(findings->count, 0);
	done(timeline_, findings);
}

static void test_random(void **state)
{
	(void)state;
	size_t found = 0, none = 0;
	for (uint64_t seed = 1; seed <= 1000; seed++) {
		struct timeline *timeline_ = random_timeline(seed * 7919);
		struct findings *findings = judge(timeline_);
		int64_t sum = 0;
		double win = 0;
		for (size_t i = 0; i < findings->count; i++) {
			const struct finding *finding = &findings->items[i];
			sum += finding->ns;
			win += finding->kind == FINDING_UNLIKE ? 0 : finding->win;
			assert_true(finding->ns >= 0 && finding->share >= 0 && finding->share <= 1.0000001);
			assert_true(finding->win <= finding->share + 1e-9);
			assert_true(*finding->what && *finding->evidence && *finding->advice && *finding->sql);
		}
		assert_true(sum <= timeline_->steps[0].end - timeline_->steps[0].start);
		assert_true(win <= 1.0000001);
		assert_true(*findings->verdict);
		check_intervals(findings);
		found += findings->count > 0;
		none += findings->count == 0;
		done(timeline_, findings);
	}
	/* The timelines are of both sorts. */
	assert_true(found > 100 && none > 20);
}

/* A file whose finding has three intervals: operators with stacks in the first, samples in the second, nothing in the third. Line 10 of it (string
 * 5) has two callers, so it has two frames: neither has as much time as line 20, both have more. */
static sqlite3 *with_stacks(void)
{
	sqlite3 *db = names();
	assert_int_equal(
		sqlite3_exec(
			db,
			"CREATE TABLE stacks (id INTEGER, parent INTEGER, file INTEGER, line INTEGER, function INTEGER); "
			"CREATE TABLE stack_lines (stack INTEGER, frame INTEGER); CREATE TABLE stack_modules (stack INTEGER, module INTEGER); "
			"CREATE TABLE nn_modules (id INTEGER, parent INTEGER, name INTEGER, class INTEGER); "
			"CREATE TABLE operators (start INTEGER, duration INTEGER, thread INTEGER, stack INTEGER, self INTEGER, name INTEGER); "
			"CREATE TABLE samples (time INTEGER, duration INTEGER, thread INTEGER, stack INTEGER); "
			"INSERT INTO strings VALUES (5, 'train.py'), (6, 'Net'), (7, 'head'), (8, 'Linear'); "
			"INSERT INTO stacks VALUES (1, 8, 5, 10, 6), (2, 9, 5, 10, 6), (3, 9, 5, 20, 6); "
			"INSERT INTO stack_lines VALUES (1, 1), (2, 2), (3, 3); "
			"INSERT INTO nn_modules VALUES (1, 0, 0, 6), (2, 1, 7, 8); "
			"INSERT INTO stack_modules VALUES (1, 2), (2, 2), (3, 1); "
			"INSERT INTO operators VALUES (0, 30, 1, 1, 30, 3), (30, 40, 1, 3, 40, 4), (70, 30, 1, 2, 30, 3); "
			"INSERT INTO samples VALUES (110, 30, 1, 1), (140, 40, 1, 3), (170, 30, 1, 2), (175, 90, 2, 3)",
			NULL, NULL, NULL),
		SQLITE_OK);
	return db;
}

/* An interval's line is the one that most of it went to, and not the frame. */
static void test_line_with_several_callers(void **state)
{
	struct findings *findings = calloc(1, sizeof *findings);
	struct places places;
	sqlite3 *db = with_stacks();

	(void)state;
	findings->count = 1;
	findings->items[0] = (struct finding){.kind = FINDING_STALL, .interval_count = 3};
	for (int64_t i = 0; i < 3; i++)
		findings->items[0].intervals[i] =
			(struct finding_interval){.start = 100 * i, .end = 100 * i + 100, .thread = 1};
	places_find(db, findings, &places);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(places.of[0][i].file, 5);
		assert_int_equal(places.of[0][i].line, 10);
		assert_int_equal(places.of[0][i].function, 6);
	}
	/* The module by operators alone; that of two of the three has more time. */
	assert_string_equal(places.of[0][0].module, "head");
	assert_null(places.of[0][1].module);
	assert_int_equal(places.of[0][2].file, 0);
	assert_null(places.of[0][2].module);
	assert_int_equal(places.path_count, 1);
	places_free(&places);
	/* What the evidence of all its stretches says. */
	findings_line(db, 1, findings);
	assert_string_equal(findings->items[0].evidence, "About 60 % of it at train.py:10.");
	sqlite3_close(db);
	free(findings);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_line_with_several_callers),
		cmocka_unit_test(test_input),
		cmocka_unit_test(test_hidden_input),
		cmocka_unit_test(test_wait),
		cmocka_unit_test(test_launch_bound),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_unbalanced),
		cmocka_unit_test(test_unlike),
		cmocka_unit_test(test_input_that_is_ready),
		cmocka_unit_test(test_outside_within_a_phase),
		cmocka_unit_test(test_unlike_without_a_processor),
		cmocka_unit_test(test_garbage),
		cmocka_unit_test(test_evaluates),
		cmocka_unit_test(test_processor),
		cmocka_unit_test(test_processor_seldom_looked_at),
		cmocka_unit_test(test_processor_beside_a_device),
		cmocka_unit_test(test_random),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
