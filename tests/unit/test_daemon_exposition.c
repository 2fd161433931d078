/* test_daemon_exposition.c - Prometheus' text format: headers, labels that hold anything, seconds, histograms. */
#include "daemon/core/histogram.h"
#include "daemon/metrics/exposition.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void expect(struct exposition *exposition, const char *text)
{
	assert_false(exposition->failed);
	if (exposition->n != strlen(text) || memcmp(exposition->text, text, exposition->n) != 0)
		fail_msg("\"%.*s\" is not \"%s\"", (int)exposition->n, exposition->text, text);
	exposition_deinit(exposition);
}

static void test_samples(void **state)
{
	struct exposition exposition;
	(void)state;
	exposition_init(&exposition);
	exposition_family(&exposition, "never", "gauge", "No sample, no trace.");
	exposition_family(&exposition, "a_total", "counter", "Help.");
	exposition_count(&exposition, UINT64_MAX, NULL);
	exposition_family(&exposition, "b", "gauge", "Two.");
	exposition_count(&exposition, 0, "x", "1", "y", "", NULL);
	exposition_count(&exposition, 7, "x", "2", "y", "z", NULL);
	expect(&exposition, "# HELP a_total Help.\n# TYPE a_total counter\na_total 18446744073709551615\n"
			    "# HELP b Two.\n# TYPE b gauge\nb{x=\"1\",y=\"\"} 0\nb{x=\"2\",y=\"z\"} 7\n");
}

static void test_hostile_labels(void **state)
{
	static const struct {
		const char *value, *written;
	} cases[] = {
		{"\"} 1\nevil{a=\"", "\\\"} 1\\nevil{a=\\\""},
		{"back\\slash\\", "back\\\\slash\\\\"},
		{"\\n", "\\\\n"},
		{"a\tb\r\x1b\x7f", "a\tb???"},
		{"caf\xc3\xa9", "caf\xc3\xa9"},
		{"\xff\xfe\xc0\xaf", "????"},
		{"\xed\xa0\x80", "???"},
		{"cut \xe2\x82", "cut ??"},
	};
	char wanted[256], many[4096];
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct exposition exposition;
		exposition_init(&exposition);
		exposition_family(&exposition, "m", "gauge", "H.");
		exposition_count(&exposition, 1, "l", cases[i].value, NULL);
		snprintf(wanted, sizeof wanted, "# HELP m H.\n# TYPE m gauge\nm{l=\"%s\"} 1\n", cases[i].written);
		expect(&exposition, wanted);
	}
	/* One that is too long is cut, wherever that falls. */
	for (size_t shift = 0; shift < 3; shift++) {
		struct exposition exposition;
		size_t n = 0;
		while (n < shift)
			many[n++] = 'x';
		for (; n + 3 < sizeof many; n += 3)
			memcpy(many + n, "\xe2\x82\xac", 3);
		many[n] = 0;
		exposition_init(&exposition);
		exposition_family(&exposition, "m", "gauge", "H.");
		exposition_count(&exposition, 1, "l", many, NULL);
		assert_true(exposition.n < 1024);
		assert_memory_equal(exposition.text + exposition.n - 5, "\"} 1\n", 5);
		exposition_deinit(&exposition);
	}
}

static void test_seconds(void **state)
{
	struct exposition exposition;
	(void)state;
	exposition_init(&exposition);
	exposition_family(&exposition, "s", "gauge", "H.");
	exposition_seconds(&exposition, 0, NULL);
	exposition_seconds(&exposition, 1, "l", "1", NULL);
	exposition_seconds(&exposition, 1500000000, "l", "2", NULL);
	exposition_seconds(&exposition, 60000000000, "l", "3", NULL);
	exposition_seconds(&exposition, 1795293862030495726, "l", "4", NULL);
	expect(&exposition, "# HELP s H.\n# TYPE s gauge\ns 0\ns{l=\"1\"} 0.000000001\ns{l=\"2\"} 1.5\ns{l=\"3\"} 60\n"
			    "s{l=\"4\"} 1795293862.030495726\n");
}

static void test_histogram(void **state)
{
	static const uint64_t bounds[] = {1000000, 500000000};
	struct histogram histogram = {.bounds = bounds, .bound_count = 2};
	struct exposition exposition;
	(void)state;
	histogram_add(&histogram, 0);
	histogram_add(&histogram, 1000000); /* le: at most */
	histogram_add(&histogram, 1000001);
	histogram_add(&histogram, 3000000000);
	exposition_init(&exposition);
	exposition_family(&exposition, "h_seconds", "histogram", "H.");
	exposition_histogram(&exposition, &histogram);
	expect(&exposition,
	       "# HELP h_seconds H.\n# TYPE h_seconds histogram\nh_seconds_bucket{le=\"0.001\"} 2\n"
	       "h_seconds_bucket{le=\"0.5\"} 3\nh_seconds_bucket{le=\"+Inf\"} 4\nh_seconds_sum 3.002000001\n"
	       "h_seconds_count 4\n");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_samples),
		cmocka_unit_test(test_hostile_labels),
		cmocka_unit_test(test_seconds),
		cmocka_unit_test(test_histogram),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
