/* test_message.c - message_check for every message, every length and every kind of bad text. */
#include "proto/errors.h"
#include "proto/limits.h"
#include "proto/message.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { DAEMON = 0, AGENT = 1 };

static const struct kind {
	uint16_t type, size;
	uint16_t first; /* size in the first release that had it */
	int from;
	const char *name;
} kinds[] = {
#define MESSAGE(number, NAME, word, sender, fds, description)                                                          \
	{                                                                                                              \
		.type = number, .size = sizeof(struct message_##word), .from = sender, .name = #word,
#define END_MESSAGE(NAME, word, first_bytes, bytes)                                                                    \
	.first = first_bytes                                                                                           \
	}                                                                                                              \
	,
#include "proto/messages.def"
};
#define KINDS (sizeof kinds / sizeof kinds[0])

static const struct text {
	uint16_t type;
	size_t at, bytes;
} texts[] = {
#define TEXT(name, member, bytes, description) {0, offsetof(struct message_##name, member), bytes},
#define MESSAGE(number, NAME, name, from, fds, description) {number, 0, 0},
#include "proto/messages.def"
};

static _Alignas(8) unsigned char packet[LIMIT_PACKET_BYTES];

static void make(const struct kind *kind, size_t n)
{
	struct message_head head = {MESSAGE_MAGIC, kind->type, (uint16_t)n};
	memset(packet, 0, sizeof packet);
	memcpy(packet, &head, sizeof head);
}

static int check(size_t n, int from_agent)
{
	static union message_any out;
	/* A copy at the very end of its memory, so that a sanitizer sees a read beyond it. */
	unsigned char *exact = test_malloc(n ? n : 1);
	memcpy(exact, packet, n);
	const char *why = NULL;
	memset(&out, 0xaa, sizeof out);
	int error = message_check(exact, n, from_agent, &out, &why);
	test_free(exact);
	assert_true(error == 0 || error == -EPROTO);
	assert_int_equal(error != 0, why != NULL);
	return error;
}

static void every_message(void **state)
{
	(void)state;
	for (size_t k = 0; k < KINDS; k++) {
		const struct kind *kind = &kinds[k];
		assert_string_equal(message_name(kind->type), kind->name);
		make(kind, kind->size);
		assert_int_equal(check(kind->size, kind->from), 0);
		assert_int_equal(check(kind->size, !kind->from), -EPROTO);
		for (size_t n = 0; n < kind->first; n++) {
			make(kind, n);
			assert_int_equal(check(n, kind->from), -EPROTO);
		}
		/* Of an older release: shorter, the rest reads as zero. */
		make(kind, kind->first);
		assert_int_equal(check(kind->first, kind->from), 0);
		/* Of a newer release: longer. */
		make(kind, kind->size + 8u);
		assert_int_equal(check(kind->size + 8u, kind->from), 0);
		/* The head and the packet disagree. */
		make(kind, kind->size);
		assert_int_equal(check(kind->size + 8u, kind->from), -EPROTO);
		make(kind, kind->size);
		packet[0] ^= 1;
		assert_int_equal(check(kind->size, kind->from), -EPROTO);
	}
	assert_null(message_name(0));
	assert_null(message_name(KINDS + 1));
	struct kind none = {.type = KINDS + 1};
	make(&none, 2048);
	assert_int_equal(check(2048, AGENT), -EPROTO);
	assert_int_equal(check(2048, DAEMON), -EPROTO);
	none.type = 0;
	make(&none, 2048);
	assert_int_equal(check(2048, AGENT), -EPROTO);
}

static void texts_must_end(void **state)
{
	(void)state;
	unsigned count = 0;
	const struct kind *kind = kinds;
	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		if (texts[i].bytes == 0) {
			while (kind->type != texts[i].type)
				kind++;
			continue;
		}
		count++;
		make(kind, kind->size);
		memset(packet + texts[i].at, 'x', texts[i].bytes);
		assert_int_equal(check(kind->size, kind->from), -EPROTO);
		packet[texts[i].at + texts[i].bytes - 1] = 0;
		assert_int_equal(check(kind->size, kind->from), 0);
	}
	assert_true(count > 10);
}

static void expect_text(const char *sent, size_t n, const char *read)
{
	struct message_hello hello = MESSAGE_INIT(HELLO, hello);
	union message_any out;
	memcpy(hello.name, sent, n);
	assert_int_equal(message_check(&hello, sizeof hello, AGENT, &out, NULL), 0);
	assert_string_equal(out.hello.name, read);
	for (size_t i = strlen(read); i < sizeof out.hello.name; i++)
		assert_int_equal(out.hello.name[i], 0);
}
#define EXPECT(sent, read) expect_text(sent, sizeof sent, read)

static void bad_characters_end_a_text(void **state)
{
	(void)state;
	EXPECT("plain", "plain");
	EXPECT("gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f");
	EXPECT("\xe2\x82\xac\xf0\x9f\x98\x80", "\xe2\x82\xac\xf0\x9f\x98\x80");
	EXPECT("a\nb", "a");
	EXPECT("a\x1b[2J", "a");
	EXPECT("a\x7f", "a");
	EXPECT("a\xc2\x9b"
	       "31m",
	       "a");
	EXPECT("a\x80z", "a");
	EXPECT("a\xc3", "a");
	EXPECT("a\xc0\xaf", "a");	      /* longer than needed */
	EXPECT("a\xe0\x80\xaf", "a");	      /* longer than needed */
	EXPECT("a\xed\xa0\x80", "a");	      /* a surrogate */
	EXPECT("a\xf4\x90\x80\x80", "a");     /* beyond the last code point */
	EXPECT("a\xf8\x88\x80\x80\x80", "a"); /* five bytes */
	EXPECT("end\0rest of somebody's memory", "end");
}

static void text_is_written(void **state)
{
	(void)state;
	char to[8];
	memset(to, 'x', sizeof to);
	message_text(to, sizeof to, "abc");
	assert_memory_equal(to, "abc\0\0\0\0\0", 8);
	message_text(to, sizeof to, "abcdefghij");
	assert_string_equal(to, "abcdefg");
	message_text(to, sizeof to, "abcdef\xc3\xbc");
	assert_string_equal(to, "abcdef");
	message_text(to, sizeof to, "abcde\xc3\xbc");
	assert_string_equal(to, "abcde\xc3\xbc");
	message_text(to, sizeof to, "a\tb\x1b");
	assert_string_equal(to, "a?b?");
	message_text(to, sizeof to, "a\xff\xc3");
	assert_string_equal(to, "a??");
	message_text(to, 1, "abc");
	assert_string_equal(to, "");
	to[0] = 'k';
	message_text(to, 0, "abc");
	assert_int_equal(to[0], 'k');
	/* What message_text writes, message_check leaves as it is. */
	struct message_hello hello = MESSAGE_INIT(HELLO, hello);
	union message_any out;
	char all[512];
	for (int i = 0; i < 255; i++)
		all[i] = (char)(i + 1);
	all[255] = 0;
	message_text(hello.command, sizeof hello.command, all);
	assert_int_equal(message_check(&hello, sizeof hello, AGENT, &out, NULL), 0);
	assert_string_equal(out.hello.command, hello.command);
	assert_int_equal(strlen(hello.command), 255);
}

static void reasons_and_errors(void **state)
{
	(void)state;
	for (unsigned reason = REASON_NONE; reason <= REASON_PHASE; reason++) {
		assert_non_null(cancel_reason_word(reason));
		assert_non_null(cancel_reason_sentence(reason));
	}
	assert_null(cancel_reason_word(REASON_PHASE + 1));
	assert_null(cancel_reason_sentence(REASON_PHASE + 1));
	unsigned known = 0;
	for (unsigned error = 0; error < 64; error++) {
		const char *word = error_word(error);
		if (!word) {
			assert_null(error_sentence(error));
			assert_int_equal(error_exit_code(error), 1);
			continue;
		}
		known++;
		assert_int_equal(error_from_word(word), error);
		assert_non_null(strstr(error_sentence(error), "%s"));
		assert_int_not_equal(error_exit_code(error), 0);
	}
	assert_true(known >= 21);
	assert_int_equal(error_from_word("of a newer daemon"), ERROR_FAILED);
	assert_int_equal(error_exit_code(ERROR_NO_STEPS), 9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_message),
		cmocka_unit_test(texts_must_end),
		cmocka_unit_test(bad_characters_end_a_text),
		cmocka_unit_test(text_is_written),
		cmocka_unit_test(reasons_and_errors),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
