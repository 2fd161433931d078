/* test_store_collectives.c - words, sizes and bandwidths of operations of several processes, and how they are found among operators and ranges: gloo's
 * by their order, NCCL's by what torch says of them. Of real jobs: tests/e2e/test_collectives.py. */
#include "store/collectives.h"
#include "store/derive_collectives.h"
#include "one_store.h"

#include "proto/events.h"

#include <string.h>

#define MS INT64_C(1000000)
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---------------------------------------------------------------- words and figures */

struct word {
	const char *name, *word;
};

static void check_words(const struct word *words, size_t count, enum collective (*of)(const char *name))
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(collective_word(of(words[i].name)), words[i].word) != 0)
			fail_msg("%s: \"%s\"", words[i].name, collective_word(of(words[i].name)));
}

/* All that torch 2.15 has in that namespace. */
static void test_operators(void **state)
{
	static const struct word words[] = {
		{"c10d::_allgather_base_", "all_gather"},
		{"c10d::_reduce_scatter_base_", "reduce_scatter"},
		{"c10d::allgather_", "all_gather"},
		{"c10d::allgather_coalesced_", "all_gather"},
		{"c10d::allgather_into_tensor_coalesced_", "all_gather"},
		{"c10d::allreduce_", "all_reduce"},
		{"c10d::allreduce_coalesced_", "all_reduce"},
		{"c10d::alltoall_", "all_to_all"},
		{"c10d::alltoall_base_", "all_to_all"},
		{"c10d::barrier", "barrier"},
		{"c10d::broadcast_", "broadcast"},
		{"c10d::gather_", "gather"},
		{"c10d::gather_into_tensor_", "gather"},
		{"c10d::monitored_barrier_", "barrier"},
		{"c10d::recv_", "recv"},
		{"c10d::recv_any_source_", "recv"},
		{"c10d::reduce_", "reduce"},
		{"c10d::reduce_scatter_", "reduce_scatter"},
		{"c10d::reduce_scatter_tensor_coalesced_", "reduce_scatter"},
		{"c10d::scatter_", "scatter"},
		{"c10d::send", "send"},
		{"c10d::", ""},
		{"c10d::wait", ""},
		{"c10d", ""},
		{"_c10d_functional::all_reduce", ""},
		{"aten::gather", ""},
		{"allreduce_", ""},
		{"", ""},
	};
	(void)state;
	check_words(words, COUNT(words), collective_of_operator);
}

static void test_ranges(void **state)
{
	static const struct word words[] = {
		{"gloo:all_gather", "all_gather"},
		{"gloo:all_reduce", "all_reduce"},
		{"gloo:all_to_all", "all_to_all"},
		{"gloo:barrier", "barrier"},
		{"gloo:broadcast", "broadcast"},
		{"gloo:gather", "gather"},
		{"gloo:recv", "recv"},
		{"gloo:recvAnySource", "recv"},
		{"gloo:reduce", "reduce"},
		{"gloo:scatter", "scatter"},
		{"gloo:send", "send"},
		{"gloo:sparse_all_reduce", "all_reduce"},
		{"nccl:all_reduce", "all_reduce"},
		{"nccl:all_reduce_barrier", "all_reduce"},
		{"nccl:_all_gather_base", "all_gather"},
		{"nccl:_reduce_scatter_base", "reduce_scatter"},
		{"nccl:_broadcast_oop", "broadcast"},
		{"nccl:_reduce_oop", "reduce"},
		{"nccl:all_to_all", "all_to_all"},
		{"nccl:send 0->1", "send"},
		{"nccl:recv 0<-1", "recv"},
		{"mpi:allgather", "all_gather"},
		{"ucc:alltoall", "all_to_all"},
		{"xccl:reduce_scatter", "reduce_scatter"},
		{"nccl:coalesced", ""},
		{"gloo:", ""},
		{"gloo: all_reduce", ""},
		{"my:all_reduce", ""},
		{"glo", ""},
		{"", ""},
	};
	(void)state;
	check_words(words, COUNT(words), collective_of_range);
}

static void test_records(void **state)
{
	static const struct word words[] = {
		{"allreduce", "all_reduce"},
		{"allreduce_coalesced", "all_reduce"},
		{"all_gather", "all_gather"},
		{"_allgather_base", "all_gather"},
		{"allgather_into_tensor_coalesced", "all_gather"},
		{"reduce_scatter", "reduce_scatter"},
		{"_reduce_scatter_base", "reduce_scatter"},
		{"reduce_scatter_tensor_coalesced", "reduce_scatter"},
		{"broadcast", "broadcast"},
		{"_broadcast_oop", "broadcast"},
		{"reduce", "reduce"},
		{"_reduce_oop", "reduce"},
		{"barrier", "barrier"},
		{"all_to_all", "all_to_all"},
		{"all_to_allv", "all_to_all"},
		{"send", "send"},
		{"recv", "recv"},
		{"gather", "gather"},
		{"scatter", "scatter"},
		{"invented_later", "other"},
		{"", "other"},
		/* These wait for another one, or only tell that several come. */
		{"wait", ""},
		{"init", ""},
		{"startCoalescing", ""},
		{"endCoalescing", ""},
	};
	(void)state;
	check_words(words, COUNT(words), collective_of_record);
	/* The words of the table are known as names: by them it looks for the bandwidth. */
	for (enum collective c = COLLECTIVE_ALL_REDUCE; c < COLLECTIVE_OTHER; c++)
		assert_int_equal(collective_of_record(collective_word(c)), c);
	assert_string_equal(collective_word((enum collective) - 1), "");
	assert_string_equal(collective_word(COLLECTIVE_COUNT), "");
}

/* nccl-tests, whose tests have n processes, each with c bytes, and a time. */
static void test_bytes(void **state)
{
	static const int64_t c = 100, n = 4, unknown = -1;
	(void)state;
	assert_int_equal(collective_bytes(COLLECTIVE_ALL_REDUCE, c, c, n), c);
	assert_int_equal(collective_bytes(COLLECTIVE_ALL_REDUCE, unknown, c, 0), c);
	assert_int_equal(collective_bytes(COLLECTIVE_BROADCAST, c, c, n), c);
	assert_int_equal(collective_bytes(COLLECTIVE_REDUCE, c, unknown, n), c);
	assert_int_equal(collective_bytes(COLLECTIVE_ALL_GATHER, c, c * n, n), c * n);
	assert_int_equal(collective_bytes(COLLECTIVE_ALL_GATHER, c, unknown, n), c * n);
	assert_int_equal(collective_bytes(COLLECTIVE_ALL_GATHER, unknown, c * n, 0), c * n);
	assert_int_equal(collective_bytes(COLLECTIVE_REDUCE_SCATTER, c * n, c, n), c * n);
	assert_int_equal(collective_bytes(COLLECTIVE_REDUCE_SCATTER, unknown, c, n), c * n);
	assert_int_equal(collective_bytes(COLLECTIVE_ALL_TO_ALL, c * n, c * n, n), c * n);
	/* Of these the doc says nothing, but src/gather.cu and src/scatter.cu. */
	assert_int_equal(collective_bytes(COLLECTIVE_GATHER, c, unknown, n), c * n);
	assert_int_equal(collective_bytes(COLLECTIVE_SCATTER, unknown, c, n), c * n);
	assert_int_equal(collective_bytes(COLLECTIVE_SEND, c, unknown, n), c);
	assert_int_equal(collective_bytes(COLLECTIVE_RECV, unknown, c, n), c);
	assert_int_equal(collective_bytes(COLLECTIVE_RECV, c, unknown, 0), c);
	/* What nobody told is not 0, and 0 is not unknown. */
	for (enum collective one = COLLECTIVE_NONE; one < COLLECTIVE_COUNT; one++) {
		assert_int_equal(collective_bytes(one, unknown, unknown, n), unknown);
		if (one != COLLECTIVE_NONE && one != COLLECTIVE_BARRIER)
			assert_int_equal(collective_bytes(one, 0, 0, n), 0);
	}
	assert_int_equal(collective_bytes(COLLECTIVE_ALL_REDUCE, 0, unknown, 0), 0);
	assert_int_equal(collective_bytes(COLLECTIVE_BARRIER, 4, 4, n), unknown);
	/* The group's size is not known, or no number holds that much. */
	assert_int_equal(collective_bytes(COLLECTIVE_ALL_GATHER, c, unknown, 0), unknown);
	assert_int_equal(collective_bytes(COLLECTIVE_ALL_GATHER, INT64_MAX / 2, unknown, 3), unknown);
}

static void test_bus_factors(void **state)
{
	(void)state;
	for (int64_t n = 2; n < 2000; n *= 3) {
		double others = (double)(n - 1) / (double)n;
		assert_true(collective_bus_factor(COLLECTIVE_ALL_REDUCE, n) == 2 * others);
		assert_true(collective_bus_factor(COLLECTIVE_ALL_GATHER, n) == others);
		assert_true(collective_bus_factor(COLLECTIVE_REDUCE_SCATTER, n) == others);
		assert_true(collective_bus_factor(COLLECTIVE_ALL_TO_ALL, n) == others);
		assert_true(collective_bus_factor(COLLECTIVE_GATHER, n) == others);
		assert_true(collective_bus_factor(COLLECTIVE_SCATTER, n) == others);
		assert_true(collective_bus_factor(COLLECTIVE_BROADCAST, n) == 1);
		assert_true(collective_bus_factor(COLLECTIVE_REDUCE, n) == 1);
		assert_true(collective_bus_factor(COLLECTIVE_SEND, n) == 1);
		assert_true(collective_bus_factor(COLLECTIVE_RECV, n) == 1);
		assert_true(collective_bus_factor(COLLECTIVE_BARRIER, n) == 0);
		assert_true(collective_bus_factor(COLLECTIVE_OTHER, n) == 0);
	}
	for (int64_t n = -1; n < 2; n++)
		assert_true(collective_bus_factor(COLLECTIVE_ALL_REDUCE, n) == 0);
}

static void test_types(void **state)
{
	static const struct {
		const char *torch, *kineto, *name;
		unsigned bytes;
	} types[] = {
		{"Float", "float", "float32", 4},
		{"Double", "double", "float64", 8},
		{"Half", "c10::Half", "float16", 2},
		{"BFloat16", "c10::BFloat16", "bfloat16", 2},
		{"Long", "long int", "int64", 8},
		{"Int", "int", "int32", 4},
		{"Byte", "unsigned char", "uint8", 1},
		{"Char", "signed char", "int8", 1},
		{"Short", "short int", "int16", 2},
		{"Bool", "bool", "bool", 1},
		{"ComplexFloat", "c10::complex<float>", "complex64", 8},
		{"Float8_e4m3fn", "c10::Float8_e4m3fn", "float8_e4m3fn", 1},
	};
	static const char *const none[] = {"", "TensorList", "Scalar", "FLOAT", "Float8", "QInt8"};
	unsigned bytes = 77;
	(void)state;
	for (size_t i = 0; i < COUNT(types); i++) {
		assert_string_equal(collective_dtype(types[i].torch, &bytes), types[i].name);
		assert_int_equal(bytes, types[i].bytes);
		assert_string_equal(collective_dtype(types[i].kineto, &bytes), types[i].name);
		assert_int_equal(bytes, types[i].bytes);
	}
	for (size_t i = 0; i < COUNT(none); i++)
		assert_null(collective_dtype(none[i], &bytes));
}

/* ---------------------------------------------------------------- rows */

static int64_t rows;

static void run(const char *format, ...)
{
	char sql[2000];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(sql, sizeof sql, format, arguments);
	va_end(arguments);
	store_run(store, sql);
	if (store->error)
		fail_msg("%s", sql);
}

static void begin(void)
{
	assert_int_equal(store_begin(store), 0);
	rows = 0;
}

static int64_t name_id(const char *name)
{
	char sql[200];
	run("INSERT INTO strings (id, text) SELECT (SELECT coalesce(max(id), 0) + 1 FROM strings), '%s' WHERE NOT EXISTS (SELECT 1 FROM strings "
	    "WHERE text = '%s')",
	    name, name);
	snprintf(sql, sizeof sql, "SELECT id FROM strings WHERE text = '%s'", name);
	return ask(sql);
}

/* Id of the row's inputs; NULL: none were recorded. */
static const char *inputs(const char *dims, const char *types)
{
	static char id[24];
	if (!dims)
		return "NULL";
	run("INSERT INTO inputs (id, dims, types, strides, concrete) SELECT coalesce(max(id), 0) + 1, '%s', '%s', '[]', '[]' FROM inputs",
	    dims, types);
	snprintf(id, sizeof id, "%lld", (long long)ask("SELECT max(id) FROM inputs"));
	return id;
}

/* Times in us. Returns its id. */
static int64_t operator_with(int thread, int64_t start, int64_t duration, const char *name, const char *dims,
			     const char *types)
{
	run("INSERT INTO operators (step, flags, start, duration, self, id, name, thread, depth, scope, sequence, inputs) VALUES (1, 0, %lld, %lld, 0, "
	    "%lld, %lld, %d, 0, 0, -1, %s)",
	    (long long)start * 1000, (long long)duration * 1000, (long long)++rows, (long long)name_id(name), thread,
	    inputs(dims, types));
	return rows;
}

static int64_t operator(int thread, int64_t start, int64_t duration, const char *name)
{
	return operator_with(thread, start, duration, name, NULL, NULL);
}

static void range_with(int thread, int64_t start, int64_t duration, const char *name, const char *dims,
		       const char *types)
{
	run("INSERT INTO ranges (step, flags, start, duration, self, id, name, thread, depth, source, payload_type, inputs) VALUES (1, 0, %lld, %lld, 0, "
	    "%lld, %lld, %d, 0, 0, 0, %s)",
	    (long long)start * 1000, (long long)duration * 1000, (long long)++rows, (long long)name_id(name), thread,
	    inputs(dims, types));
}

static void range(int thread, int64_t start, int64_t duration, const char *name)
{
	range_with(thread, start, duration, name, NULL, NULL);
}

static void derive_all(void)
{
	run("INSERT INTO operator_totals (name, step, calls, self, total, min, max) SELECT DISTINCT name, 1, 1, 0, 0, 0, 0 FROM operators");
	run("INSERT INTO range_totals (name, source, step, calls, self, total, min, max) SELECT DISTINCT name, 0, 1, 1, 0, 0, 0, 0 FROM ranges");
	assert_true(derive_collectives(store));
	assert_int_equal(store->error, 0);
}

/* What it says of this one; -1: NULL, and -2: it is not listed. In us. */
static int64_t of(int64_t id, const char *column)
{
	char sql[200];
	snprintf(sql, sizeof sql, "SELECT coalesce((SELECT coalesce(%s, -1) FROM collectives WHERE id = %lld), -2)",
		 column, (long long)id);
	return ask(sql);
}

static void check_ran(int64_t id, int64_t begun, int64_t ended)
{
	assert_int_equal(of(id, "begun / 1000"), begun);
	assert_int_equal(of(id, "ended / 1000"), ended);
	assert_int_equal(of(id, "device"), ended < 0 ? -1 : 0);
}

static void check_text(int64_t id, const char *column, const char *text)
{
	char what[100];
	snprintf(what, sizeof what, "%s IS %s%s%s", column, text ? "'" : "", text ? text : "NULL", text ? "'" : "");
	assert_int_equal(of(id, what), 1);
}

#define COLLECTIVES "SELECT count(*) FROM collectives"
#define RAN "SELECT count(*) FROM collectives WHERE ended IS NOT NULL"

static void test_in_order(void **state)
{
	(void)state;
	begin();
	/* Two at a time, in two threads; one that waits for a thread; another operation beside them. */
	int64_t one = operator(1, 100, 10, "c10d::allreduce_"), two = operator(1, 120, 10, "c10d::allreduce_");
	int64_t other = operator(1, 140, 10, "c10d::_allgather_base_"),
		three = operator(1, 160, 10, "c10d::allreduce_");
	range(7, 105, 500, "gloo:all_reduce");
	range(8, 125, 100, "gloo:all_reduce");
	range(8, 230, 50, "gloo:all_gather");
	range(8, 290, 60, "gloo:all_reduce");
	range(9, 300, 60, "mine:all_reduce");
	derive_all();
	assert_int_equal(ask(COLLECTIVES), 4);
	check_ran(one, 105, 605);
	check_ran(two, 125, 225);
	check_ran(three, 290, 350);
	check_ran(other, 230, 280);
	check_text(other, "operation", "all_gather");
	/* Nothing was recorded of them. */
	check_text(one, "dtype", NULL);
	assert_int_equal(of(one, "bytes"), -1);
	assert_int_equal(of(one, "group_size"), -1);
	assert_int_equal(of(one, "duration"), 10000);
	assert_int_equal(of(one, "thread"), 1);
	assert_int_equal(of(one, "step"), 1);
	store_rollback(store);
}

/* One that was asked for before the recording began runs in it; the range of one is lost, and of the last one nothing came. */
static void test_ranges_without_calls_and_calls_without(void **state)
{
	(void)state;
	begin();
	range(7, 50, 40, "gloo:all_reduce");
	int64_t one = operator(1, 100, 10, "c10d::allreduce_"), lost = operator(1, 200, 10, "c10d::allreduce_");
	range(7, 110, 40, "gloo:all_reduce");
	int64_t three = operator(1, 30000, 10, "c10d::allreduce_"), last = operator(1, 90000, 10, "c10d::allreduce_");
	range(7, 30010, 40, "gloo:all_reduce");
	derive_all();
	check_ran(one, 110, 150);
	check_ran(lost, -1, -1);
	check_ran(three, 30010, 30050);
	check_ran(last, -1, -1);
	store_rollback(store);
}

static void test_none_was_asked_for(void **state)
{
	(void)state;
	begin();
	range(7, 50, 40, "gloo:all_reduce");
	range(1, 50, 40, "nccl:all_reduce");
	operator(1, 90, 10, "aten::add");
	derive_all();
	assert_int_equal(ask(COLLECTIVES), 0);
	store_rollback(store);
}

static void test_sizes(void **state)
{
	(void)state;
	begin();
	int64_t list =
		operator_with(1, 0, 1, "c10d::allreduce_", "[[[3, 4], [2]], [], []]", "[\"TensorList\", \"\", \"\"]");
	range_with(7, 1, 1, "gloo:all_reduce", "[[3, 4], [2]]", "[\"double\", \"double\"]");
	int64_t base =
		operator_with(1, 10, 1, "c10d::_allgather_base_", "[[26], [13], []]", "[\"float\", \"float\", \"\"]");
	int64_t scalar = operator_with(1, 20, 1, "c10d::broadcast_", "[[[]], []]", "[\"TensorList\", \"\"]");
	range_with(7, 21, 1, "gloo:broadcast", "[[]]", "[\"long int\"]");
	int64_t empty = operator_with(1, 30, 1, "c10d::broadcast_", "[[[0]], []]", "[\"TensorList\", \"\"]");
	range_with(7, 31, 1, "gloo:broadcast", "[[0]]", "[\"long int\"]");
	/* Several types: the bytes are known, no type is. */
	int64_t mixed = operator_with(1, 40, 1, "c10d::reduce_", "[[[1], [1]], []]", "[\"TensorList\", \"\"]");
	range_with(7, 41, 1, "gloo:reduce", "[[1], [1]]", "[\"double\", \"float\"]");
	/* A list whose type nobody told; a group whose size nobody told. */
	int64_t untold = operator_with(1, 50, 1, "c10d::alltoall_", "[[[3], [4]], [[3], [4]]]",
				       "[\"TensorList\", \"TensorList\"]");
	int64_t group = operator_with(1, 60, 1, "c10d::allgather_", "[[], [[11]]]", "[\"\", \"TensorList\"]");
	range_with(7, 61, 1, "gloo:all_gather", "[[11]]", "[\"float\"]");
	/* gloo makes one all_reduce of each tensor. */
	int64_t several = operator_with(1, 70, 1, "c10d::reduce_scatter_", "[[[17]], []]", "[\"TensorList\", \"\"]");
	range_with(7, 71, 2, "gloo:all_reduce", "[[17]]", "[\"float\"]");
	range_with(8, 72, 9, "gloo:all_reduce", "[[17]]", "[\"float\"]");
	int64_t cut = operator_with(1, 100, 1, "c10d::reduce_scatter_", "[[[17]], []]", "[\"TensorList\", \"\"]");
	range_with(7, 101, 2, "gloo:all_reduce", "[[17]]", "[\"float\"]");
	int64_t coalesced = operator_with(1, 110, 1, "c10d::reduce_scatter_tensor_coalesced_",
					  "[[[83], [83]], [[166], [166]]]", "[\"TensorList\", \"TensorList\"]");
	range_with(7, 111, 2, "gloo:all_reduce", "[[166]]", "[\"float\"]");
	range_with(8, 112, 2, "gloo:all_reduce", "[[166]]", "[\"float\"]");
	/* What a sparse tensor has in it is not its shape. */
	int64_t sparse = operator_with(1, 120, 1, "c10d::allreduce_", "[[[89]], []]", "[\"TensorList\", \"\"]");
	range_with(7, 121, 5, "gloo:sparse_all_reduce", "[[89]]", "[\"float\"]");
	int64_t barrier = operator_with(1, 130, 1, "c10d::barrier", "[[1], []]", "[\"unsigned char\", \"\"]");
	range(7, 131, 5, "gloo:barrier");
	derive_all();
	assert_int_equal(of(list, "bytes"), 14 * 8);
	check_text(list, "dtype", "float64");
	assert_int_equal(of(base, "bytes"), 26 * 4);
	check_text(base, "dtype", "float32");
	assert_int_equal(of(scalar, "bytes"), 8);
	assert_int_equal(of(empty, "bytes"), 0);
	assert_int_equal(of(mixed, "bytes"), 12);
	check_text(mixed, "dtype", NULL);
	assert_int_equal(of(untold, "bytes"), -1);
	assert_int_equal(of(group, "bytes"), -1);
	check_text(group, "dtype", "float32");
	assert_int_equal(of(several, "bytes"), 2 * 17 * 4);
	check_ran(several, 71, 81);
	assert_int_equal(of(cut, "bytes"), -1);
	assert_int_equal(of(coalesced, "bytes"), 2 * 166 * 4);
	check_ran(coalesced, 111, 114);
	assert_int_equal(of(sparse, "bytes"), -1);
	check_text(sparse, "dtype", "float32");
	check_ran(sparse, 121, 126);
	assert_int_equal(of(barrier, "bytes"), -1);
	check_text(barrier, "dtype", NULL);
	store_rollback(store);
}

/* Groups have threads of their own: one's are busy when the other's begins. By order alone they would be mixed up; by what they put in they are not. */
static void test_two_groups(void **state)
{
	(void)state;
	begin();
	int64_t first[3], second;
	for (int i = 0; i < 3; i++)
		first[i] = operator_with(1, 10 * i, 1, "c10d::allreduce_", "[[[5]], []]", "[\"TensorList\", \"\"]");
	second = operator_with(1, 40, 1, "c10d::allreduce_", "[[[6]], []]", "[\"TensorList\", \"\"]");
	range_with(7, 1, 900, "gloo:all_reduce", "[[5]]", "[\"float\"]");
	range_with(8, 11, 900, "gloo:all_reduce", "[[5]]", "[\"float\"]");
	range_with(9, 45, 10, "gloo:all_reduce", "[[6]]", "[\"float\"]");
	range_with(7, 902, 10, "gloo:all_reduce", "[[5]]", "[\"float\"]");
	/* Whose this is nobody knows. */
	range_with(9, 950, 10, "gloo:all_reduce", "[[7]]", "[\"float\"]");
	derive_all();
	check_ran(first[0], 1, 901);
	check_ran(first[1], 11, 911);
	check_ran(first[2], 902, 912);
	check_ran(second, 45, 55);
	assert_int_equal(of(second, "bytes"), 24);
	store_rollback(store);
}

/* These run in the thread that asks, and end when it waits for them. monitored_barrier waits itself. */
static void test_in_the_thread_that_asked(void **state)
{
	(void)state;
	begin();
	int64_t send = operator_with(1, 0, 10, "c10d::send", "[[[43]], []]", "[\"TensorList\", \"\"]");
	range_with(1, 5, 100, "gloo:send", "[[43]]", "[\"float\"]");
	int64_t recv = operator_with(1, 20, 10, "c10d::recv_", "[[[43]], []]", "[\"TensorList\", \"\"]");
	range_with(1, 25, 200, "gloo:recv", "[[43]]", "[\"float\"]");
	int64_t any = operator(1, 300, 10, "c10d::recv_any_source_");
	range(1, 305, 5, "gloo:recvAnySource");
	int64_t barrier = operator(1, 400, 300, "c10d::monitored_barrier_");
	range(1, 410, 5, "gloo:recv");
	range(1, 600, 5, "gloo:send");
	int64_t later = operator(1, 800, 10, "c10d::barrier");
	range(7, 805, 20, "gloo:barrier");
	derive_all();
	assert_int_equal(ask(COLLECTIVES), 5);
	check_ran(send, 5, 105);
	check_ran(recv, 25, 225);
	assert_int_equal(of(send, "bytes"), 43 * 4);
	assert_int_equal(of(recv, "bytes"), 43 * 4);
	check_ran(any, 305, 310);
	check_ran(barrier, 400, 700);
	check_ran(later, 805, 825);
	store_rollback(store);
}

static void record(int64_t id, const char *name, int64_t in, int64_t out, const char *dtype, int unknown)
{
	int64_t word = name_id(name), group = name_id("7"), description = name_id("mesh_tp"), ranks = name_id("[0, 4]");
	run("INSERT INTO collective_records (step, flags, time, operator, in_elements, out_elements, sequence, name, group_name, group_description, "
	    "group_ranks, dtype, group_size, rank, unknown) VALUES (1, 0, 0, %lld, %lld, %lld, 99, %lld, %lld, %lld, %lld, %lld, 2, 0, %d)",
	    (long long)id, (long long)in, (long long)out, (long long)word, (long long)group, (long long)description,
	    (long long)ranks, (long long)name_id(dtype), unknown);
}

static void test_described(void **state)
{
	(void)state;
	begin();
	int64_t outer = operator(1, 0, 50, "c10d::_allgather_base_"), inner = operator(1, 10, 30, "record_param_comms");
	record(inner, "_allgather_base", 100, 200, "BFloat16", 0);
	range_with(1, 20, 10, "nccl:_all_gather_base", "[[100]]", "[\"c10::BFloat16\"]");
	run("INSERT INTO range_devices VALUES (%lld, 0, 0, 1, 5000000, 9000000)", (long long)outer);
	/* Without an operator of c10d's, a group of several, and one that waits. */
	int64_t bare = operator(1, 100, 10, "record_param_comms"), wait = operator(1, 200, 10, "record_param_comms");
	record(bare, "allreduce", 0, 7, "Float", COLLECTIVE_UNKNOWN_IN | COLLECTIVE_UNKNOWN_OUT);
	record(wait, "wait", 0, 0, "Byte", 0);
	int64_t untold = operator(1, 300, 10, "record_param_comms"), twice = operator(1, 400, 10, "record_param_comms");
	record(twice, "send", 5, 0, "Nothing", 0);
	record(twice, "recv", 6, 0, "Float", 0);
	derive_all();
	assert_int_equal(ask(COLLECTIVES), 3);
	assert_int_equal(of(outer, "bytes"), 400);
	assert_int_equal(of(outer, "group_size"), 2);
	assert_int_equal(of(outer, "sequence"), 99);
	check_text(outer, "group_name", "7");
	check_text(outer, "group_description", "mesh_tp");
	check_text(outer, "group_ranks", "[0, 4]");
	check_text(outer, "dtype", "bfloat16");
	assert_int_equal(of(outer, "device"), 1);
	assert_int_equal(of(outer, "begun"), 5 * MS);
	assert_int_equal(of(outer, "ended"), 9 * MS);
	/* Its sizes were not told: that is not 0. */
	assert_int_equal(of(bare, "bytes"), -1);
	assert_int_equal(of(bare, "ended"), -1);
	assert_int_equal(of(wait, "bytes"), -2);
	assert_int_equal(of(untold, "bytes"), -2);
	check_text(twice, "operation", "send");
	check_text(twice, "dtype", NULL);
	assert_int_equal(of(twice, "bytes"), -1);
	store_rollback(store);
}

/* ---------------------------------------------------------------- hostile rows */

static void test_inputs_of_nobody(void **state)
{
	static const struct word odd[] = {
		{"", ""},
		{"[", "["},
		{"nothing", "7"},
		{"{}", "{}"},
		{"[[-4], [1e300, 1e300], [\"a\"]]", "[\"float\", \"float\", \"float\"]"},
		{"[[[[[[4]]]]], [[[4]]]]", "[\"TensorList\", \"TensorList\"]"},
		{"[[4], [4]]", "[7, null]"},
		{"[]", "[\"float\", \"float\"]"},
		{"[[9007199254740993, 9007199254740993]]", "[\"double\"]"},
		{"[[1e999]]", "[\"float\"]"},
		{"[4, 4]", "[\"float\", \"float\"]"},
	};
	char *deep = malloc(100001), *wide = calloc(1, 400001);
	(void)state;
	begin();
	for (size_t i = 0; i < COUNT(odd); i++) {
		int64_t at = (int64_t)i * 100;
		operator_with(1, at, 10, i % 2 ? "c10d::alltoall_base_" : "c10d::allreduce_", odd[i].name, odd[i].word);
		range_with(7, at + 20, 10, i % 2 ? "gloo:all_to_all" : "gloo:all_reduce", odd[i].name, odd[i].word);
	}
	assert_true(deep && wide);
	memset(deep, '[', 100000);
	deep[100000] = '\0';
	for (size_t i = 0; i < 400000; i += 4)
		memcpy(wide + i, i ? "[1]," : "[   ", 4);
	memcpy(wide + 399996, "[1]]", 4);
	sqlite3_stmt *add = store_prepare(store, "INSERT INTO inputs VALUES (?1, ?2, ?2, '[]', '[]')");
	for (int i = 0; i < 2; i++) {
		sqlite3_bind_int(add, 1, 900 + i);
		sqlite3_bind_text(add, 2, i ? wide : deep, -1, SQLITE_STATIC);
		store_step(store, add);
	}
	sqlite3_finalize(add);
	run("INSERT INTO operators (step, flags, start, duration, id, name, thread, inputs) SELECT 1, 0, 9000000 + id, 1, id, (SELECT min(name) FROM "
	    "operators), 1, id FROM inputs WHERE id >= 900");
	derive_all();
	assert_int_equal(ask(COLLECTIVES), COUNT(odd) + 2);
	assert_int_equal(ask("SELECT count(*) FROM collectives WHERE bytes < 0"), 0);
	assert_int_equal(ask("SELECT count(bytes) FROM collectives"), 0);
	store_rollback(store);
	free(deep);
	free(wide);
}

/* Times that no clock has, and calls within calls. */
static void test_odd_times(void **state)
{
	(void)state;
	begin();
	int64_t all = name_id("c10d::allreduce_"), ranges = name_id("gloo:all_reduce");
	run("WITH t(at, took) AS (VALUES (-9223372036854775807 - 1, 9223372036854775807), (9223372036854775807, 9223372036854775807), (0, -1), "
	    "(5, -9223372036854775807 - 1), (100, 0), (9223372036854775807, 1), (NULL, 1), (1, NULL)) INSERT INTO operators (step, flags, start, "
	    "duration, id, name, thread) SELECT 1, 0, at, took, row_number() OVER (), %lld, row_number() OVER () FROM t WHERE at IS NOT NULL",
	    (long long)all);
	run("INSERT INTO ranges (step, flags, start, duration, id, name, thread, source) SELECT 1, 0, start, duration, id + 100, %lld, 50, 0 FROM operators",
	    (long long)ranges);
	for (int i = 0; i < 20; i++)
		operator(99, 10 + i, 1000 - 2 * i, "c10d::allreduce_");
	rows += 1000;
	run("UPDATE operators SET id = id + 500 WHERE thread = 99");
	derive_all();
	/* The outermost alone. */
	assert_int_equal(ask("SELECT count(*) FROM collectives WHERE thread = 99"), 1);
	store_rollback(store);
}

#define MANY 100000

static void put_many(const char *operators, const char *ranges)
{
	int64_t call = name_id("c10d::allreduce_"), ran = name_id("gloo:all_reduce");
	run("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) INSERT INTO operators (step, flags, start, duration, id, "
	    "name, thread, inputs) SELECT 1, 0, %s, 1, i, %lld, 1, 1 FROM n",
	    MANY, operators, (long long)call);
	run("INSERT INTO ranges (step, flags, start, duration, id, name, thread, source, inputs) SELECT 1, 0, %s, 1, id + %d, %lld, 7, 0, 2 FROM (SELECT id, id AS i "
	    "FROM operators)",
	    ranges, MANY, (long long)ran);
}

/* Nothing of it takes a time that grows with the square: each would be ten thousand million looks. */
static void test_many(void **state)
{
	static const char *const orders[][2] = {
		{"i * 10", "i * 10 + 5"},	   /* one after another */
		{"i * 10", "2000000 + i"},	   /* all are asked for before any runs */
		{"2000000 + i * 10", "i"},	   /* none runs after it was asked for */
		{"i * 30000000", "4000000000000"}, /* all ranges but the last were lost, or come at once */
	};
	static const int64_t found[] = {MANY, MANY, 0, -1};
	(void)state;
	for (int known = 0; known < 2; known++)
		for (size_t i = 0; i < (known ? 2 : COUNT(orders)); i++) {
			begin();
			run("INSERT INTO inputs VALUES (1, '[[[3]]]', '[\"TensorList\"]', '[]', '[]'), (2, '[[%d]]', '[\"float\"]', '[]', '[]')",
			    known ? 4 : 3);
			put_many(orders[i][0], orders[i][1]);
			derive_all();
			assert_int_equal(ask(COLLECTIVES), MANY);
			/* Those that put in something else are not it. */
			if (found[i] >= 0)
				assert_int_equal(ask(RAN), known ? 0 : found[i]);
			store_rollback(store);
		}
}

static void test_no_memory(void **state)
{
	unsigned refused = 0;
	(void)state;
	begin();
	put_many("i * 10", "i * 10 + 5");
	run("UPDATE operators SET thread = id");
	run("INSERT INTO operator_totals (name, step, calls, self, total, min, max) SELECT DISTINCT name, 1, 1, 0, 0, 0, 0 FROM operators");
	run("INSERT INTO range_totals (name, source, step, calls, self, total, min, max) SELECT DISTINCT name, 0, 1, 1, 0, 0, 0, 0 FROM ranges");
	for (uint64_t most = 1000;; most *= 2) {
		struct memory memory = {.most = most};
		store->memory = &memory;
		bool done = derive_collectives(store);
		store->memory = NULL;
		assert_int_equal(store->error, 0);
		assert_true(memory.used == 0);
		if (done)
			break;
		refused++;
		/* None instead of some. */
		assert_int_equal(ask(COLLECTIVES), 0);
	}
	assert_true(refused > 5);
	assert_int_equal(ask(RAN), MANY);
	store_rollback(store);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_operators),
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_records),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_bus_factors),
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_in_order),
		cmocka_unit_test(test_ranges_without_calls_and_calls_without),
		cmocka_unit_test(test_none_was_asked_for),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_two_groups),
		cmocka_unit_test(test_in_the_thread_that_asked),
		cmocka_unit_test(test_described),
		cmocka_unit_test(test_inputs_of_nobody),
		cmocka_unit_test(test_odd_times),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, make, unmake);
}
