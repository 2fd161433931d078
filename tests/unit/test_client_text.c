/* test_client_text.c - texts from elsewhere, and figures, on a terminal. */
#include "client/ui/text.h"

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int setup(void **state)
{
	(void)state;
	return setlocale(LC_CTYPE, "C.UTF-8") ? 0 : -1;
}

/* Takes the text. */
static void expect(char *text, const char *wanted)
{
	assert_string_equal(text, wanted);
	free(text);
}

static void test_decode(void **state)
{
	static const char *const wrong[] = {"\x80",
					    "\xc3",
					    "\xc3(",
					    "\xe2\x82",
					    "\xc0\xaf",
					    "\xe0\x80\xaf",
					    "\xed\xa0\x80",
					    "\xf4\x90\x80\x80",
					    "\xf8\x88\x80\x80\x80",
					    "\xff"};
	const char *at = "a\xc3\xa9\xe6\xbc\xa2\xf0\x9f\x98\x80";

	(void)state;
	assert_int_equal(text_decode(&at), 'a');
	assert_int_equal(text_decode(&at), 0xe9);
	assert_int_equal(text_decode(&at), 0x6f22);
	assert_int_equal(text_decode(&at), 0x1f600);
	assert_int_equal(text_decode(&at), 0);
	assert_int_equal(text_decode(&at), 0);
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		at = wrong[i];
		assert_int_equal(text_decode(&at), -1);
		assert_ptr_equal(at, wrong[i] + 1);
	}
}

static void test_width(void **state)
{
	(void)state;
	assert_int_equal(text_width(""), 0);
	assert_int_equal(text_width("aten::mm"), 8);
	assert_int_equal(text_width("\xc3\xa9t\xc3\xa9"), 3);
	assert_int_equal(text_width("\xe6\xbc\xa2\xe5\xad\x97"), 4);
	assert_int_equal(text_width("e\xcc\x81"), 1); /* a combining accent takes no cell */
}

static void test_cut(void **state)
{
	(void)state;
	expect(text_cut("0123456789", 10), "0123456789");
	expect(text_cut("0123456789", 9), "012...789");
	expect(text_cut("0123456789", 8), "012...89");
	expect(text_cut("0123456789", 5), "0...9");
	expect(text_cut("0123456789", 3), "0123456789"); /* no room to cut in */
	expect(text_cut("", 5), "");
	/* Wide characters are not halved: the cut text is one cell shorter, never longer. */
	for (size_t width = 5; width < 24; width++) {
		char *cut = text_cut("\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97"
				     "\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97",
				     width);
		const char *at = cut;
		int32_t c;

		assert_in_range(text_width(cut), width - 2, width);
		while ((c = text_decode(&at)) != 0)
			assert_int_not_equal(c, -1);
		free(cut);
	}
}

static void test_safe(void **state)
{
	(void)state;
	expect(text_safe(NULL), "");
	expect(text_safe("plain \xc3\xa9"), "plain \xc3\xa9");
	expect(text_safe("a\x1b[31mb\r\n\tc\x7f"), "a?[31mb???c?");
	expect(text_safe("a\xe2\x80\xae"
			 "b\xef\xbb\xbf"),
	       "a?b?");
	expect(text_safe("\xc2\x9b"
			 "31m"),
	       "?31m"); /* CSI in its one-character form */
	expect(text_safe("\xff\xc3"), "??");
	expect(text_utf8("a\xff\x1b\xc3"), "a\xef\xbf\xbd\x1b\xef\xbf\xbd");
	expect(text_utf8(NULL), "");
}

static void test_figures(void **state)
{
	static const struct {
		int64_t ns;
		const char *text;
	} durations[] = {
		{0, "0 ns"},
		{999, "999 ns"},
		{1000, "1.000 us"},
		{12345, "12.35 us"},
		{999949, "999.9 us"},
		{999950, "1.000 ms"},
		{999999999, "1.000 s"},
		{90000000000, "90.00 s"},
		{3600000000000, "3600 s"},
		{-1500, "-1.500 us"},
		{INT64_MIN, "-9223372037 s"},
	};
	char text[TEXT_FIGURE_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof durations / sizeof *durations; i++)
		assert_string_equal(text_duration(text, durations[i].ns), durations[i].text);
	assert_string_equal(text_bytes(text, 1023), "1023 B");
	assert_string_equal(text_bytes(text, 1024), "1.000 KiB");
	assert_string_equal(text_bytes(text, 268435456), "256.0 MiB");
	assert_string_equal(text_bytes(text, INT64_MAX), "8589934592 GiB");
	assert_string_equal(text_count(text, 0), "0");
	assert_string_equal(text_count(text, 999), "999");
	assert_string_equal(text_count(text, 1000), "1,000");
	assert_string_equal(text_count(text, -1234567), "-1,234,567");
	assert_string_equal(text_count(text, INT64_MIN), "-9,223,372,036,854,775,808");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_decode), cmocka_unit_test(test_width),   cmocka_unit_test(test_cut),
		cmocka_unit_test(test_safe),   cmocka_unit_test(test_figures),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
