/* test_client_capture_maker.c - a capture file made of records that no agent wrote, at a path, as the client makes one with
 * store/store.h: it is summed and placed as a daemon's is, the client's reader takes it, and no other file is harmed. */
#include "client/reader/reader.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define BASE 5000000000ull
#define REALTIME 1767225600000000000ull

enum { MM = 1, RELU, STEP_RANGE, GEMM, LAUNCH };

static char folder[] = "/tmp/profd-capture-maker-XXXXXX";
static char path[64], partial[80];

static struct store *begin(void)
{
	static const char *const texts[] = {"aten::mm", "aten::relu", "train", "void ns::gemm<float>(float*, int)",
					    "cudaLaunchKernel"};
	struct capture_facts facts = {
		.who = {.pid = 77, .rank = -1, .local_rank = -1, .world_size = -1, .name = "train.py"}};
	struct store *store = store_new(NULL);
	assert_non_null(store);
	assert_int_equal(store_create_at(store, path), 0);
	store_begin(store);
	store_put_facts(store, &facts);
	store_set_base(store, BASE, REALTIME);
	store_unordered(store);
	for (uint32_t i = 0; i < sizeof texts / sizeof *texts; i++)
		store_put_string(store, i + 1, texts[i], strlen(texts[i]));
	assert_int_equal(store_error(store), 0);
	return store;
}

static void put_step(struct store *store, uint32_t ordinal)
{
	const union event_any event = {.step = {.head = {sizeof event.step, EVENT_STEP, 0, ordinal},
						.start = BASE + (ordinal - 1) * 1000000,
						.duration = 1000000,
						.number = ordinal,
						.thread = 77,
						.source = STEP_SOURCE_RANGE,
						.collectors = 1u << COLLECTOR_TORCH | 1u << COLLECTOR_CUPTI}};
	store_put_event(store, &event);
}

static void put_operator(struct store *store, uint32_t name, uint64_t id, uint64_t parent, uint64_t start,
			 uint64_t duration)
{
	const union event_any event = {.operator= {.head = {sizeof event.operator, EVENT_OPERATOR, 0, 0},
						   .start = BASE + start,
						   .duration = duration,
						   .self = duration,
						   .id = id,
						   .parent = parent,
						   .name = name,
						   .thread = 77,
						   .depth = parent != 0,
						   .sequence = -1} };
	store_put_event(store, &event);
}

static void put_launch(struct store *store, uint32_t correlation, uint32_t step, uint64_t start)
{
	const union event_any call = {.api_call = {.head = {sizeof call.api_call, EVENT_API_CALL, 0, step},
						   .start = BASE + start,
						   .duration = 5000,
						   .correlation = correlation,
						   .name = LAUNCH,
						   .thread = 77,
						   .domain = 2}};
	const union event_any kernel = {.kernel = {.head = {sizeof kernel.kernel, EVENT_KERNEL, 0, 0},
						   .start = BASE + start + 10000,
						   .duration = 20000,
						   .correlation = correlation,
						   .stream = 7,
						   .name = GEMM}};
	/* As a trace may have them: the kernel before its call. */
	store_put_event(store, &kernel);
	store_put_event(store, &call);
}

static int finish(struct store *store, const struct store_watch *watch, struct capture_facts *facts,
		  struct store_finished *finished)
{
	static struct store_ending ending;
	ending = (struct store_ending){.id = "imported", .trigger_id = "imported"};
	ending.collectors[COLLECTOR_TORCH] = (struct store_collector){.wanted = true, .told = true, .ran = true};
	ending.collectors[COLLECTOR_CUPTI] = (struct store_collector){
		.wanted = true, .told = true, .ran = true, .sentence = "what the trace has of the GPU"};
	ending.collectors[COLLECTOR_SHAPES] =
		(struct store_collector){.wanted = true, .told = true, .sentence = "the trace has no shapes"};
	store_count_lost(&ending, LOSS_UNREADABLE, EVENT_OPERATOR, 3);
	*facts = (struct capture_facts){
		.status = CAPTURE_COMPLETE,
		.who = {.pid = 77, .rank = -1, .local_rank = -1, .world_size = -1, .name = "train.py"}};
	return store_finish(store, &ending, facts, watch, finished);
}

static bool is_there(const char *name)
{
	return access(name, F_OK) == 0;
}

static void write_file(const char *name, const char *text)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void assert_holds(const char *name, const char *text)
{
	char found[64] = "";
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(read(fd, found, sizeof found - 1), strlen(text));
	assert_string_equal(found, text);
	close(fd);
}

static int64_t ask(struct reader *reader, const char *sql)
{
	return reader_count(reader, sql, -1);
}

static void test_a_whole_capture(void **state)
{
	struct capture_facts facts;
	struct store_finished finished;
	struct reader reader;
	char why[1024];
	(void)state;
	struct store *store = begin();
	store_expect_device(store);
	put_step(store, 1);
	put_step(store, 2);
	put_operator(store, RELU, 3, 0, 1500000, 70000);
	put_operator(store, MM, 1, 0, 100000, 60000);
	put_operator(store, MM, 2, 1, 110000, 40000); /* one call with its parent */
	put_launch(store, 9, 1, 120000);
	put_launch(store, 8, 2, 1510000);
	assert_int_equal(store_commit(store), 0);
	assert_true(is_there(partial));
	assert_false(is_there(path));
	assert_int_equal(finish(store, NULL, &facts, &finished), 0);
	store_free(store);
	assert_true(finished.kept);
	assert_false(is_there(partial));
	assert_int_equal(facts.status, CAPTURE_COMPLETE);
	assert_int_equal(facts.steps_recorded, 2);
	assert_int_equal(facts.events, 9);
	assert_int_equal(facts.lost, 3);
	assert_int_equal(finished.lost[LOSS_UNREADABLE], 3);
	assert_int_equal(finished.moved, 3); /* nobody had said in which step an operator lies */
	assert_int_equal(reader_open(&reader, open(path, O_RDONLY | O_CLOEXEC), why, sizeof why), 0);
	assert_int_equal(ask(&reader, "SELECT step FROM operators WHERE id = 3"), 2);
	assert_int_equal(ask(&reader, "SELECT calls FROM operator_totals WHERE name = 1"), 1);
	assert_int_equal(ask(&reader, "SELECT self FROM operator_totals WHERE name = 1"), 100000);
	assert_int_equal(ask(&reader, "SELECT self_device FROM operator_totals WHERE name = 2"), 20000);
	assert_int_equal(ask(&reader, "SELECT range FROM launches WHERE correlation = 9"), 2);
	assert_int_equal(ask(&reader, "SELECT step FROM kernels WHERE correlation = 8"), 2);
	assert_int_equal(ask(&reader, "SELECT busy FROM step_devices WHERE step = 1 AND stream = -1"), 20000);
	/* The names came readable; the short ones are made. */
	assert_int_equal(ask(&reader, "SELECT name = 4 FROM kernel_names WHERE mangled = 4"), 1);
	assert_int_equal(ask(&reader,
			     "SELECT count(*) FROM kernel_names k JOIN strings s ON s.id = k.short WHERE s.text = "
			     "'gemm'"),
			 1);
	assert_int_equal(ask(&reader, "SELECT count(*) FROM collectors WHERE ran"), 2);
	assert_int_equal(ask(&reader, "SELECT count(*) FROM collectors WHERE sentence = 'the trace has no shapes'"), 1);
	assert_int_equal(ask(&reader, "SELECT count(*) FROM meta WHERE key = 'base_realtime' AND value = "
				      "1767225600000000000"),
			 1);
	assert_string_equal(reader_meta_text(&reader, "status"), "complete");
	assert_non_null(strstr(reader_meta_text(&reader, "summary"), "\"aten::relu\""));
	reader_close(&reader);
	assert_int_equal(unlink(path), 0);
}

static void test_no_other_file_is_harmed(void **state)
{
	struct capture_facts facts;
	struct store_finished finished;
	(void)state;
	/* It is there from the start. */
	write_file(path, "mine");
	struct store *store = store_new(NULL);
	assert_int_equal(store_create_at(store, path), -EEXIST);
	assert_non_null(strstr(store_sentence(store), path));
	store_discard(store);
	store_free(store);
	assert_holds(path, "mine");
	unlink(path);
	/* Another is at it, or was killed. */
	write_file(partial, "theirs");
	store = store_new(NULL);
	assert_int_equal(store_create_at(store, path), -EEXIST);
	assert_non_null(strstr(store_sentence(store), partial));
	store_discard(store);
	store_free(store);
	assert_holds(partial, "theirs");
	unlink(partial);
	/* It appears in between. */
	store = begin();
	put_operator(store, MM, 1, 0, 100000, 60000);
	store_commit(store);
	write_file(path, "mine");
	assert_int_equal(finish(store, NULL, &facts, &finished), -EEXIST);
	assert_false(finished.kept);
	assert_int_equal(facts.status, CAPTURE_FAILED);
	assert_non_null(strstr(facts.reason, "File exists"));
	store_free(store);
	assert_holds(path, "mine");
	assert_false(is_there(partial));
	unlink(path);
}

static void test_a_path_that_cannot_be(void **state)
{
	char long_name[400];
	(void)state;
	memset(long_name, 'x', sizeof long_name - 1);
	long_name[sizeof long_name - 1] = 0;
	const struct {
		const char *path;
		int error;
	} wrong[] = {{"/nowhere/at/all.db", -ENOENT}, {"/tmp/", -EISDIR}, {long_name, -ENAMETOOLONG}};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct store *store = store_new(NULL);
		assert_int_equal(store_create_at(store, wrong[i].path), wrong[i].error);
		assert_non_null(strstr(store_sentence(store), "cannot be made"));
		/* All that follows fails alike. */
		assert_int_equal(store_begin(store), wrong[i].error);
		put_step(store, 1);
		assert_int_equal(store_commit(store), wrong[i].error);
		store_free(store);
	}
}

static void test_nothing_is_no_capture(void **state)
{
	struct capture_facts facts;
	struct store_finished finished;
	(void)state;
	struct store *store = begin();
	assert_int_equal(store_commit(store), 0);
	assert_int_equal(finish(store, NULL, &facts, &finished), 0);
	store_free(store);
	assert_false(finished.kept);
	assert_int_equal(facts.status, CAPTURE_FAILED);
	assert_false(is_there(path));
	assert_false(is_there(partial));
}

struct patience {
	unsigned looks, ends_at;
	char doing[256]; /* all that was told, one behind the other */
};

static int look(void *context, const char *doing, char sentence[STORE_SENTENCE_BYTES])
{
	struct patience *patience = context;
	size_t n = strlen(patience->doing);
	if (!strstr(patience->doing, doing))
		snprintf(patience->doing + n, sizeof patience->doing - n, "%s;", doing);
	if (++patience->looks != patience->ends_at)
		return 0;
	snprintf(sentence, STORE_SENTENCE_BYTES, "nobody waits any more");
	return -ECANCELED;
}

/* So many records that whoever waits is asked often. */
static struct store *begin_large(void)
{
	struct store *store = begin();
	for (uint32_t step = 1; step <= 20; step++)
		put_step(store, step);
	for (uint32_t i = 0; i < 20000; i++) {
		put_operator(store, i % 2 ? MM : RELU, i + 1, 0, i * 1000, 500);
		if (i % 4 == 0)
			put_launch(store, i + 1, 1 + i / 1000, i * 1000 + 10);
	}
	assert_int_equal(store_commit(store), 0);
	return store;
}

static void test_whoever_waits_is_told_and_may_end_it(void **state)
{
	struct capture_facts facts;
	struct store_finished finished;
	struct reader reader;
	char why[1024];
	struct patience patience = {0};
	const struct store_watch watch = {look, &patience};
	(void)state;
	struct store *store = begin_large();
	assert_int_equal(finish(store, &watch, &facts, &finished), 0);
	store_free(store);
	assert_int_equal(facts.status, CAPTURE_COMPLETE);
	assert_non_null(strstr(patience.doing, "putting records into their steps;"));
	assert_non_null(strstr(patience.doing, "adding up operators and ranges;"));
	assert_non_null(strstr(patience.doing, "finding what launched what;"));
	assert_int_equal(unlink(path), 0);
	patience = (struct patience){.ends_at = 3};
	store = begin_large();
	assert_int_equal(finish(store, &watch, &facts, &finished), 0);
	store_free(store);
	assert_int_equal(patience.looks, 3);
	assert_true(finished.kept);
	assert_int_equal(facts.status, CAPTURE_INCOMPLETE);
	assert_int_equal(facts.reason_code, REASON_CANCELLED);
	assert_non_null(strstr(facts.reason, "nobody waits any more"));
	assert_int_equal(reader_open(&reader, open(path, O_RDONLY | O_CLOEXEC), why, sizeof why), 0);
	assert_int_equal(ask(&reader, "SELECT count(*) FROM operators"), 20000);
	assert_int_equal(ask(&reader, "SELECT count(*) FROM operator_totals"), 0);
	reader_close(&reader);
	assert_int_equal(unlink(path), 0);
}

static int make_folder(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof path, "%s/made.db", folder);
	snprintf(partial, sizeof partial, "%s.partial", path);
	return 0;
}

static int remove_folder(void **state)
{
	(void)state;
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_whole_capture),
		cmocka_unit_test(test_no_other_file_is_harmed),
		cmocka_unit_test(test_a_path_that_cannot_be),
		cmocka_unit_test(test_nothing_is_no_capture),
		cmocka_unit_test(test_whoever_waits_is_told_and_may_end_it),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
