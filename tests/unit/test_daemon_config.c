/* test_daemon_config.c - profd.conf: what is read, what is refused and where, and that what is printed can be read. */
#include "daemon/setup/config_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void refused(const char *text, const char *begin)
{
	struct config config;
	char sentence[CONFIG_SENTENCE_BYTES] = "";
	config_init(&config);
	assert_int_not_equal(config_parse(&config, "a.conf", text, strlen(text), sentence), 0);
	if (strncmp(sentence, begin, strlen(begin)) != 0)
		fail_msg("%s: \"%s\" does not begin with \"%s\"", text, sentence, begin);
}

static void test_values(void **state)
{
	static const char text[] = "# a comment\n\n store_bytes = 20G\r\n\tstore_age=30d\nverbose = yes\n"
				   "metrics_textfile = /a/b c.prom  \ntriggers_user =  7";
	struct config config;
	char sentence[CONFIG_SENTENCE_BYTES];
	(void)state;
	config_init(&config);
	assert_true(config.store_bytes == 50ull << 30);
	assert_false(config.verbose);
	assert_int_equal(config_parse(&config, "a.conf", text, sizeof text - 1, sentence), 0);
	assert_true(config.store_bytes == 20ull << 30);
	assert_true(config.store_age == 30ull * 86400 * 1000000000);
	assert_true(config.verbose);
	assert_string_equal(config.metrics_textfile, "/a/b c.prom");
	assert_int_equal(config.triggers_user, 7);
	static const char empty[] = "metrics_textfile =\n";
	assert_int_equal(config_parse(&config, "a.conf", empty, sizeof empty - 1, sentence), 0);
	assert_string_equal(config.metrics_textfile, "");
}

static void test_refusals(void **state)
{
	(void)state;
	refused("store_bites = 1G\n", "a.conf:1:1: store_bites: there is no such key; did you mean store_bytes?");
	refused("wholly_other = 1\n", "a.conf:1:1: wholly_other: there is no such key; `profd daemon --print-config`");
	refused("\n  store_bytes = much\n", "a.conf:2:17: store_bytes: a size is wanted");
	refused("store_age = 30\n", "a.conf:1:13: store_age: a duration with its unit is wanted");
	refused("store_captures = -1\n", "a.conf:1:18: store_captures: a whole number is wanted");
	refused("metrics_port = 70000\n", "a.conf:1:16: metrics_port: at most 65535 is wanted");
	refused("connections = 1\n", "a.conf:1:15: connections: at least 16 is wanted");
	refused("verbose = true\n", "a.conf:1:11: verbose: yes or no is wanted");
	refused("metrics_textfile = a.prom\n", "a.conf:1:20: metrics_textfile: an absolute path");
	refused("store_bytes 1G\n", "a.conf:1:13: a line `key = value` is wanted");
	refused("= 1\n", "a.conf:1:1: a line `key = value` is wanted");
	refused("[store]\n", "a.conf:1:8: a line `key = value` is wanted");
	refused("verbose = no\nverbose = yes\n", "a.conf:2:1: verbose: it stands in this file already");
	refused("verbose = n\x01o\n", "a.conf:1:12: a control character");
	refused("store_bytes = 18446744073709551616\n", "a.conf:1:15: store_bytes: a size is wanted");
}

/* What --print-config prints is a file that means the same. */
static void test_printed_can_be_read(void **state)
{
	struct config config, again;
	char sentence[CONFIG_SENTENCE_BYTES];
	char *text = NULL;
	size_t n = 0;
	(void)state;
	config_init(&config);
	config.store_age = 3600000000001;
	config.free_space = 12345;
	config.verbose = true;
	config.metrics_port = 9100;
	snprintf(config.metrics_textfile, sizeof config.metrics_textfile, "/var/x.prom");
	FILE *to = open_memstream(&text, &n);
	config_print(&config, to);
	fclose(to);
	config_init(&again);
	assert_int_equal(config_parse(&again, "printed", text, n, sentence), 0);
	assert_memory_equal(&config, &again, sizeof config);
	free(text);
}

static void count(void *context, const char *key)
{
	unsigned *n = context;
	assert_string_equal(key, "metrics_port");
	++*n;
}

static void test_reload(void **state)
{
	struct config config, fresh;
	unsigned told = 0;
	(void)state;
	config_init(&config);
	config_init(&fresh);
	fresh.store_bytes = 7;
	fresh.metrics_port = 9100;
	config_take(&config, &fresh, count, &told);
	assert_int_equal(config.store_bytes, 7);
	assert_int_equal(config.metrics_port, 0);
	assert_int_equal(told, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_printed_can_be_read),
		cmocka_unit_test(test_reload),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
