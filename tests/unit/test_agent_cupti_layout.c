/* test_agent_cupti_layout.c - sizes of CUPTI's records: by version, then by the library's own word, believed where it can be
 * true. The libraries here are made up; tests/cuda asks the real ones. */
#include "agent/cupti/decode.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* cuptiGetVersion of some releases. */
enum { V11_7 = 17, V11_8 = 18, V12_4 = 22, V13_0 = 130001, V13_5 = 130500 };

static struct cupti_layout layout_of(uint32_t version)
{
	struct cupti_layout layout;
	assert_int_equal(cupti_layout_choose(&layout, version), 0);
	return layout;
}

/* A record with little in it. */
static unsigned char record[512];

static void begin(uint32_t kind)
{
	memset(record, 0, sizeof record);
	memcpy(record, &kind, sizeof kind);
}

/* A kernel's, of 13.1 or later: stream 7, priority 3. */
static void begin_kernel(void)
{
	begin(10);
	record[48] = 7;
	record[216] = 3;
}

static void versions_choose(void **state)
{
	(void)state;
	struct cupti_layout layout;
	assert_int_equal(cupti_layout_choose(&layout, 16), -ENOTSUP);
	assert_int_equal(cupti_layout_choose(&layout, 0), -ENOTSUP);
	/* 11.8, 12.0 and 12.1 have one number: the smallest of theirs, until the library is asked. */
	layout = layout_of(V11_8);
	assert_int_equal(layout.size[CUPTI_KIND_CONCURRENT_KERNEL], 200);
	assert_int_equal(layout.size[CUPTI_KIND_JIT], 64);
	assert_int_equal(layout.state[CUPTI_KIND_CONCURRENT_KERNEL], CUPTI_LAYOUT_ASSUMED);
	/* Between two known numbers: the older; beyond the last: the newest. */
	layout = layout_of(130000);
	assert_int_equal(layout.size[CUPTI_KIND_CONCURRENT_KERNEL], 208);
	layout = layout_of(V13_0 + 1);
	assert_int_equal(layout.size[CUPTI_KIND_CONCURRENT_KERNEL], 216);
	layout = layout_of(999999);
	assert_int_equal(layout.size[CUPTI_KIND_CONCURRENT_KERNEL], 248);
	assert_int_equal(layout.version, 999999);
	/* Kinds that are not there yet, or no kinds at all. */
	layout = layout_of(V11_7);
	assert_int_equal(layout.size[CUPTI_KIND_JIT], 0);
	assert_int_equal(layout.state[CUPTI_KIND_JIT], CUPTI_LAYOUT_ABSENT);
	assert_int_equal(cupti_layout_size(&layout, CUPTI_KIND_COUNT), 0);
	assert_int_equal(cupti_layout_size(&layout, UINT32_MAX), 0);
	assert_string_equal(cupti_kind_name(10), "CONCURRENT_KERNEL");
	assert_null(cupti_kind_name(0));
	assert_null(cupti_kind_name(UINT32_MAX));
	assert_non_null(cupti_layout_sentence(&layout, UINT32_MAX));
}

/* A library that has records of these sizes, 0 = no such kind. */
static size_t library[CUPTI_KIND_COUNT];
static size_t official[CUPTI_KIND_COUNT];

static int fake_next(uint8_t *buffer, size_t valid, void **at)
{
	uint8_t *next = *at;
	if (!next) {
		next = buffer;
	} else {
		uint32_t kind = cupti_record_kind(next);
		if (kind >= CUPTI_KIND_COUNT || !library[kind])
			return 21; /* CUPTI_ERROR_INVALID_KIND */
		next += library[kind];
	}
	if (next >= buffer + valid)
		return 12; /* CUPTI_ERROR_MAX_LIMIT_REACHED */
	uint32_t kind = cupti_record_kind(next);
	if (kind >= CUPTI_KIND_COUNT || !library[kind])
		return 21;
	*at = next;
	return 0;
}

static int fake_struct_size(unsigned kind, uint32_t version, size_t *ret_size)
{
	assert_int_equal(version, 0);
	if (kind >= CUPTI_KIND_COUNT || !official[kind])
		return 21;
	*ret_size = official[kind];
	return 0;
}

static void library_like(uint32_t version)
{
	struct cupti_layout layout = layout_of(version);
	for (uint32_t kind = 0; kind < CUPTI_KIND_COUNT; kind++)
		library[kind] = layout.size[kind];
	memset(official, 0, sizeof official);
}

static void the_library_proves(void **state)
{
	(void)state;
	/* 12.0 calls itself 18, as 11.8 does. */
	struct cupti_layout layout = layout_of(V11_8);
	library_like(V11_8);
	library[CUPTI_KIND_CONCURRENT_KERNEL] = 208;
	assert_int_equal(cupti_layout_prove(&layout, fake_next, NULL), 0);
	assert_int_equal(layout.size[CUPTI_KIND_CONCURRENT_KERNEL], 208);
	assert_int_equal(layout.state[CUPTI_KIND_CONCURRENT_KERNEL], CUPTI_LAYOUT_PROVED);
	assert_int_equal(layout.size[CUPTI_KIND_MEMCPY], 88);
	assert_int_equal(layout.state[CUPTI_KIND_GREEN_CONTEXT], CUPTI_LAYOUT_ABSENT);

	/* A future release: a larger record, and what was known of it is where it was. */
	struct event_kernel k;
	struct cupti_times t;
	const char *name;
	layout = layout_of(140000);
	library_like(140000);
	library[CUPTI_KIND_CONCURRENT_KERNEL] = 264;
	assert_int_equal(cupti_layout_prove(&layout, fake_next, NULL), 0);
	assert_int_equal(layout.size[CUPTI_KIND_CONCURRENT_KERNEL], 264);
	begin_kernel();
	assert_int_equal(cupti_decode_kernel(&layout, record, &k, &t, &name), 1);
	assert_int_equal(k.stream, 7);
	assert_int_equal(k.priority, 3);

	/* A record that is smaller than the version says has what fits. */
	layout = layout_of(V13_5);
	library_like(V13_5);
	library[CUPTI_KIND_CONCURRENT_KERNEL] = 208;
	assert_int_equal(cupti_layout_prove(&layout, fake_next, NULL), 0);
	assert_int_equal(cupti_decode_kernel(&layout, record, &k, &t, &name), 1);
	assert_int_equal(k.priority, 0);

	/* Of two answers the smaller; where there is one, that. */
	layout = layout_of(V13_5);
	library_like(V13_5);
	official[CUPTI_KIND_MEMCPY] = 120;
	official[CUPTI_KIND_CONCURRENT_KERNEL] = 232;
	assert_int_equal(cupti_layout_prove(&layout, fake_next, fake_struct_size), 0);
	assert_int_equal(layout.size[CUPTI_KIND_MEMCPY], 112);
	assert_int_equal(layout.size[CUPTI_KIND_CONCURRENT_KERNEL], 232);
	assert_int_equal(layout.size[CUPTI_KIND_MEMSET], 104);
	assert_int_equal(cupti_layout_prove(&layout, NULL, fake_struct_size), 0);
	assert_int_equal(layout.size[CUPTI_KIND_MEMCPY], 120);
	assert_int_equal(layout.size[CUPTI_KIND_MEMSET], 0);
	assert_int_equal(layout.state[CUPTI_KIND_MEMSET], CUPTI_LAYOUT_SILENT);
}

static void contradictions(void **state)
{
	(void)state;
	struct event_kernel k;
	struct event_copy c;
	struct cupti_times t;
	const char *name;
	static const size_t impossible[] = {168, 8, 204, 2056};
	for (size_t i = 0; i < sizeof impossible / sizeof impossible[0]; i++) {
		struct cupti_layout layout = layout_of(V12_4);
		library_like(V12_4);
		official[CUPTI_KIND_CONCURRENT_KERNEL] = impossible[i];
		library[CUPTI_KIND_CONCURRENT_KERNEL] = 0;
		assert_int_equal(cupti_layout_prove(&layout, fake_next, fake_struct_size), 0);
		assert_int_equal(layout.state[CUPTI_KIND_CONCURRENT_KERNEL], CUPTI_LAYOUT_REFUSED);
		assert_int_equal(layout.told[CUPTI_KIND_CONCURRENT_KERNEL], impossible[i]);
		assert_non_null(strstr(cupti_layout_sentence(&layout, CUPTI_KIND_CONCURRENT_KERNEL), "is not read"));
		begin_kernel();
		memset(&k, 0x77, sizeof k);
		assert_int_equal(cupti_decode_kernel(&layout, record, &k, &t, &name), 0);
		assert_int_equal(k.stream, 0x77777777);
		/* The others are none the worse for it. */
		begin(1);
		assert_int_equal(cupti_decode_copy(&layout, record, &c, &t), 1);
	}
	/* A size that the walk cannot see the end of. */
	struct cupti_layout layout = layout_of(V12_4);
	library_like(V12_4);
	library[CUPTI_KIND_MEMCPY] = 1 << 20;
	assert_int_equal(cupti_layout_prove(&layout, fake_next, NULL), 0);
	assert_int_equal(layout.state[CUPTI_KIND_MEMCPY], CUPTI_LAYOUT_SILENT);
	assert_int_equal(cupti_decode_copy(&layout, record, &c, &t), 0);

	/* A library that says nothing at all changes nothing. */
	layout = layout_of(V12_4);
	memset(library, 0, sizeof library);
	assert_int_equal(cupti_layout_prove(&layout, fake_next, fake_struct_size), -ENODEV);
	assert_int_equal(cupti_layout_prove(&layout, NULL, NULL), -ENODEV);
	assert_int_equal(layout.size[CUPTI_KIND_CONCURRENT_KERNEL], 208);
	assert_int_equal(layout.state[CUPTI_KIND_CONCURRENT_KERNEL], CUPTI_LAYOUT_ASSUMED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(versions_choose),
		cmocka_unit_test(the_library_proves),
		cmocka_unit_test(contradictions),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
