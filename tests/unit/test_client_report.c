/* test_client_report.c - what the tables of a capture share: sort keys, and the rows of a summary. */
#include "client/report/ids.h"
#include "client/report/query.h"
#include "client/report/summary.h"
#include "client/ui/print.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct report_key keys[] = {
	{"self_cpu_time_total", "first"}, {"cpu_time_total", "total"},	  {"self_device_time_total", "self device"},
	{"device_time_total", "device"},  {"device_time", "device each"}, {"count", "calls"},
};

static const char *order(const char *key)
{
	return report_order(keys, sizeof keys / sizeof *keys, key);
}

static void test_sort_keys(void **state)
{
	(void)state;
	assert_string_equal(order(NULL), "first");
	assert_string_equal(order("cpu_time_total"), "total");
	assert_string_equal(order("count"), "calls");
	/* The words of torch.profiler before and after 2.3. */
	assert_string_equal(order("self_device_time_total"), "self device");
	assert_string_equal(order("self_cuda_time_total"), "self device");
	assert_string_equal(order("cuda_time_total"), "device");
	assert_string_equal(order("cuda_time"), "device each");
	/* What a table does not have: its own order. */
	assert_string_equal(order("name"), "first");
	assert_string_equal(order("cuda_"), "first");
	assert_string_equal(order("self_cuda_time"), "first");
	assert_string_equal(order("device_time_tota"), "first");
	assert_string_equal(order("cpu_device_time"), "first");

	assert_true(report_key_is_device("cuda_time"));
	assert_true(report_key_is_device("self_device_time_total"));
	assert_false(report_key_is_device("self_cpu_time_total"));
	assert_false(report_key_is_device("count"));
}

static double busy(const char *summary, int step)
{
	cJSON *object = cJSON_Parse(summary);
	double percent;

	assert_non_null(object);
	percent = summary_busy_percent(
		object, step < 0 ? NULL : cJSON_GetArrayItem(cJSON_GetObjectItem(object, "steps"), step));
	cJSON_Delete(object);
	return percent;
}

static void test_busy(void **state)
{
	static const char one[] = "{\"devices\":1,\"steps\":[{\"wall_ns\":100,\"device_busy_ns\":50},{\"wall_ns\":300,"
				  "\"device_busy_ns\":30}]}";
	static const char two[] =
		"{\"devices\":2,\"steps\":[{\"wall_ns\":100,\"device_busy_ns\":50},{\"wall_ns\":100}]}";
	static const char none[] = "{\"devices\":0,\"steps\":[{\"wall_ns\":100,\"device_busy_ns\":null}]}";

	(void)state;
	assert_true(busy(one, -1) == 20);
	assert_true(busy(one, 0) == 50);
	assert_true(busy(one, 1) == 10);
	/* A step in which it was off counts neither for nor against. */
	assert_true(busy(two, -1) == 25);
	assert_true(busy(two, 1) == -1);
	assert_true(busy(none, -1) == -1);
	assert_true(busy("{}", -1) == -1);
	assert_true(busy("{\"steps\":[{\"wall_ns\":0,\"device_busy_ns\":0}]}", -1) == -1);
}

static char *printed(struct table *table)
{
	char *text = NULL;
	size_t bytes;
	struct screen screen = {.file = open_memstream(&text, &bytes)};

	table_print(table, &screen, 0);
	fclose(screen.file);
	table_free(table);
	return text;
}

static void test_summaries(void **state)
{
	cJSON *summary = cJSON_Parse(
		"{\"kernels\":[{\"name\":\"k\",\"calls\":4,\"total_ns\":400,\"average_ns\":100,\"min_ns\":50,\"max_"
		"ns\":150}],"
		"\"kernels_total\":3,\"copies\":[{\"kind\":\"DtoH\",\"calls\":2,\"bytes\":2000,\"total_ns\":500},"
		"{\"kind\":\"HtoD\",\"calls\":0,\"bytes\":0,\"total_ns\":0}],\"sets\":{\"calls\":1,\"bytes\":7,\"total_"
		"ns\":0},"
		"\"operators\":[{\"name\":\"o\",\"calls\":1,\"self_cpu_ns\":25,\"cpu_ns\":30,\"self_device_ns\":null}],"
		"\"self_cpu_ns\":50}");
	char *text;

	(void)state;
	text = printed(summary_kernels(summary));
	assert_string_equal(text, "KERNEL  CALLS   TOTAL     AVG    MIN     MAX\n"
				  "k           4  400 ns  100 ns  50 ns  150 ns\n... and 2 more\n");
	free(text);
	/* What has taken no time has no bandwidth. */
	text = printed(summary_copies(summary));
	assert_string_equal(text, "COPY OR MEMSET  CALLS      BYTES   TOTAL  BANDWIDTH\n"
				  "DtoH                2  1.953 KiB  500 ns  4.00 GB/s\n"
				  "Memset              1        7 B    0 ns          -\n");
	free(text);
	/* Without a device its columns are not there. */
	text = printed(summary_operators(summary));
	assert_string_equal(text, "OPERATOR  CALLS  SELF CPU  SELF CPU %  CPU TOTAL\n"
				  "o             1     25 ns       50.0%      30 ns\n");
	free(text);
	/* What a daemon of an older release does not tell has no share. */
	cJSON_DeleteItemFromObject(summary, "self_cpu_ns");
	text = printed(summary_operators(summary));
	assert_string_equal(text, "OPERATOR  CALLS  SELF CPU  CPU TOTAL\n"
				  "o             1     25 ns      30 ns\n");
	free(text);
	cJSON_Delete(summary);
}

struct listed {
	int64_t other, id;
};

/* Each id at its first place, and no other one anywhere. */
static void expect_places(const struct listed *list, size_t count, bool near)
{
	struct id_places places;
	id_places_make(&places, &list->id, sizeof *list, count);
	assert_int_equal(places.by_distance != NULL, near);
	for (size_t i = 0; i < count; i++) {
		size_t first = 0;
		while (list[first].id != list[i].id)
			first++;
		assert_int_equal(id_places_find(&places, list[i].id), first);
	}
	assert_int_equal(id_places_find(&places, 77), ID_PLACE_NONE);
	assert_int_equal(id_places_find(&places, INT64_MIN), ID_PLACE_NONE);
	assert_int_equal(id_places_find(&places, INT64_MAX), ID_PLACE_NONE);
	id_places_free(&places);
}

/* Ids in a row need no hash; a file that is not what it says has any. */
static void test_places(void **state)
{
	static const struct listed row[] = {{9, 3}, {9, 1}, {9, 2}, {9, 3}, {9, 0}, {9, 6}},
				   negative[] = {{9, -3}, {9, -1}, {9, 0}},
				   apart[] = {{9, 3}, {9, INT64_C(1) << 40}, {9, 3}},
				   ends[] = {{9, INT64_MIN + 1}, {9, INT64_MAX - 1}};
	(void)state;
	expect_places(row, sizeof row / sizeof *row, true);
	expect_places(negative, sizeof negative / sizeof *negative, true);
	expect_places(apart, sizeof apart / sizeof *apart, false);
	expect_places(ends, sizeof ends / sizeof *ends, false);
	expect_places(row, 0, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_sort_keys),
		cmocka_unit_test(test_busy),
		cmocka_unit_test(test_summaries),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
