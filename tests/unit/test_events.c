/* test_events.c - event_read on whole, short, long, truncated and senseless records. */
#include "proto/events.h"
#include "proto/columns.h"
#include "proto/limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static _Alignas(8) unsigned char buffer[LIMIT_CHUNK_BYTES];

static void put(size_t at, uint16_t size, uint8_t kind)
{
	struct event_head head = {.size = size, .kind = kind, .flags = EVENT_FLAG_CLIPPED, .step = 3};
	memcpy(buffer + at, &head, sizeof head);
}

static void whole_records(void **state)
{
	(void)state;
	struct event_step step = {
		.head = {sizeof step, EVENT_STEP, EVENT_FLAG_DOUBTFUL, 2}, .start = 5, .duration = 7, .number = 11};
	struct event_mark mark = {.head = {sizeof mark, EVENT_MARK, 0, 2}, .time = 9, .name = 4, .payload = ~0ull};
	memcpy(buffer, &step, sizeof step);
	memcpy(buffer + sizeof step, &mark, sizeof mark);
	size_t at = 0, n = sizeof step + sizeof mark;
	union event_any event;
	memset(&event, 0xaa, sizeof event);
	assert_int_equal(event_read(buffer, n, &at, &event), EVENT_OK);
	assert_int_equal(at, sizeof step);
	assert_memory_equal(&event.step, &step, sizeof step);
	/* Nothing of what was there before is left behind the record. */
	for (size_t i = sizeof step; i < sizeof event; i++)
		assert_int_equal(((unsigned char *)&event)[i], 0);
	assert_int_equal(event_read(buffer, n, &at, &event), EVENT_OK);
	assert_memory_equal(&event.mark, &mark, sizeof mark);
	assert_int_equal(event_read(buffer, n, &at, &event), EVENT_END);
	assert_int_equal(at, n);
}

/* A record of an older release ends early: the rest reads as 0; one of a newer release has more: it is passed over. */
static void other_lengths(void **state)
{
	(void)state;
	memset(buffer, 0x5a, 1024);
	put(0, 64, EVENT_RANGE);
	size_t at = 0;
	union event_any event;
	assert_int_equal(event_read(buffer, 64, &at, &event), EVENT_OK);
	assert_int_equal(event.range.depth, 0x5a5a);
	assert_int_equal(event.range.category, 0);
	assert_int_equal(event.range.payload, 0);
	assert_int_equal(event.range.end_thread, 0);

	put(0, 56, EVENT_RANGE);
	at = 0;
	assert_int_equal(event_read(buffer, 1024, &at, &event), EVENT_BROKEN);
	assert_int_equal(at, 0);

	put(0, 128, EVENT_RANGE);
	put(128, sizeof(struct event_thread), EVENT_THREAD);
	at = 0;
	size_t n = 128 + sizeof(struct event_thread);
	assert_int_equal(event_read(buffer, n, &at, &event), EVENT_OK);
	assert_int_equal(event.range.end_thread, 0x5a5a5a5a);
	assert_int_equal(event_read(buffer, n, &at, &event), EVENT_OK);
	assert_int_equal(event.head.kind, EVENT_THREAD);
	assert_int_equal(event_read(buffer, n, &at, &event), EVENT_END);
}

static void every_kind_at_every_length(void **state)
{
	(void)state;
	static const struct {
		uint8_t kind;
		uint16_t min, size;
	} kinds[] = {
#define EVENT(number, NAME, name, table, min_size, side, place, description)                                           \
	{number, min_size, sizeof(struct event_##name)},
#include "proto/events.def"
	};
	union event_any event;
	for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
		assert_true(kinds[k].min <= kinds[k].size);
		assert_true(kinds[k].size <= LIMIT_EVENT_BYTES);
		for (unsigned size = 0; size <= LIMIT_EVENT_BYTES + 8; size++) {
			put(0, (uint16_t)size, kinds[k].kind);
			size_t at = 0;
			enum event_verdict verdict = event_read(buffer, sizeof buffer, &at, &event);
			int good = size >= kinds[k].min && size % 8 == 0 && size <= LIMIT_EVENT_BYTES;
			assert_int_equal(verdict, good ? EVENT_OK : EVENT_BROKEN);
			assert_int_equal(at, good ? size : 0);
			/* One byte less than the record says. */
			at = 0;
			if (good)
				assert_int_equal(event_read(buffer, size - 1u, &at, &event), EVENT_BROKEN);
		}
	}
}

static void unknown_kinds_are_skipped(void **state)
{
	(void)state;
	static const uint8_t unknown[] = {0, 12, 14, EVENT_PHASE, EVENT_CODE_MODULE, 40, 63, 64, 255};
	union event_any event;
	for (size_t i = 0; i < sizeof unknown; i++) {
		put(0, 16, unknown[i]);
		size_t at = 0;
		assert_int_equal(event_read(buffer, 16, &at, &event), EVENT_UNKNOWN);
		assert_int_equal(at, 16);
		assert_int_equal(event.head.kind, unknown[i]);
		assert_int_equal(event.head.step, 3);
	}
}

static void ends(void **state)
{
	(void)state;
	union event_any event;
	memset(buffer, 0, 64);
	for (size_t n = 0; n < 24; n++) {
		size_t at = 0;
		/* A hole reads as zero and zero is no record. */
		assert_int_equal(event_read(buffer, n, &at, &event), n == 0 ? EVENT_END : EVENT_BROKEN);
	}
	put(8, 16, EVENT_KERNEL);
	size_t at = 4;
	assert_int_equal(event_read(buffer, 64, &at, &event), EVENT_BROKEN);
	at = 65;
	assert_int_equal(event_read(buffer, 64, &at, &event), EVENT_END);
	at = SIZE_MAX;
	assert_int_equal(event_read(buffer, 64, &at, &event), EVENT_END);
}

static void names(void **state)
{
	(void)state;
	assert_string_equal(event_name(EVENT_OPERATOR), "operator");
	assert_string_equal(event_table(EVENT_OPERATOR), "operators");
	assert_string_equal(event_table(EVENT_COPY), "copy_records");
	assert_null(event_name(0));
	assert_null(event_table(EVENT_KIND_COUNT));
	assert_string_equal(loss_name(LOSS_NO_SPACE), "no_space");
	assert_null(loss_name(LOSS_COUNT));
	assert_null(loss_sentence(LOSS_COUNT));
	assert_int_equal(loss_is_loss(LOSS_NO_SPACE), 1);
	assert_int_equal(loss_is_loss(LOSS_CLIPPED), 0);
	assert_string_equal(step_source_word(STEP_SOURCE_OPTIMIZER), "optimizer");
	assert_null(step_source_word(STEP_SOURCE_COUNT));
	for (unsigned i = 0; i < STEP_SOURCE_COUNT; i++)
		assert_non_null(step_source_sentence(i));
	for (unsigned i = 0; i < CAPTURE_STATUS_COUNT; i++)
		assert_non_null(capture_status_word(i));
	assert_string_equal(range_source_word(RANGE_SOURCE_NVTX_PUSH_POP), "nvtx");
	assert_null(range_source_word(0));
}

/* A number, a table's name: each stands for one thing. */
static void names_are_their_own(void **state)
{
	(void)state;
	static const char *const tables[] = {
#define EVENT(number, NAME, name, table, min_size, side, place, description) table,
#define RESERVED(number, NAME, name, table, description) table,
#include "proto/events.def"
	};
	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(tables[i], tables[j]);
	for (unsigned kind = 0; kind < EVENT_KIND_COUNT; kind++) {
		const char *statement = event_create_table(kind);
		char begin[64];
		if (!statement)
			continue;
		snprintf(begin, sizeof begin, "CREATE TABLE %s (step INTEGER, ", event_table(kind));
		assert_memory_equal(statement, begin, strlen(begin));
	}
	assert_non_null(strstr(event_create_table(EVENT_COUNTER), ", value REAL, name INTEGER, "));
	/* Members that are not stored have no column. */
	assert_null(strstr(event_create_table(EVENT_OPERATOR), "reserved"));
	assert_null(event_create_table(EVENT_PHASE));
}

/* As the agent and the daemon ask. */
static void meanings(void **state)
{
	(void)state;
	static const uint8_t stated[] = {
		EVENT_RANGE,   EVENT_OPERATOR, EVENT_MARK,	EVENT_SAMPLE, EVENT_FRAMEWORK_ALLOCATION,
		EVENT_COMPILE, EVENT_GARBAGE,  EVENT_COLLECTIVE};
	static const uint8_t facts[] = {EVENT_STEP,   EVENT_THREAD,  EVENT_DEVICE,	EVENT_CONTEXT, EVENT_STREAM,
					EVENT_MODULE, EVENT_SESSION, EVENT_THREAD_TIME, EVENT_WORKER,  EVENT_STACK};
	unsigned needing = 0, known = 0;
	for (unsigned kind = 0; kind < 300; kind++) {
		needing += event_needs_step(kind) != 0;
		known += event_is_fact(kind) != 0;
	}
	for (size_t i = 0; i < sizeof stated; i++)
		assert_true(event_needs_step(stated[i]));
	for (size_t i = 0; i < sizeof facts; i++)
		assert_true(event_is_fact(facts[i]));
	assert_int_equal(needing, sizeof stated);
	assert_int_equal(known, sizeof facts);
}

/* What collectors record besides, and which figures they fill: as the agent, the daemon and the client ask. */
static void collectors(void **state)
{
	(void)state;
	assert_int_equal(collector_parts(COLLECTOR_TORCH), 1u << COLLECTOR_SHAPES);
	assert_int_equal(collector_parts(COLLECTOR_CUPTI), 1u << COLLECTOR_MEMORY);
	assert_int_equal(collector_parts(COLLECTOR_NVTX), 0);
	assert_int_equal(collector_parts(COLLECTOR_SHAPES), 0);
	assert_int_equal(collectors_filling(FILLS_DEVICE), 1u << COLLECTOR_CUPTI);
	assert_int_equal(collectors_filling(FILLS_OPERATORS), 1u << COLLECTOR_TORCH);
	assert_int_equal(collectors_filling(FILLS_RANGES),
			 1u << COLLECTOR_TORCH | 1u << COLLECTOR_NVTX | 1u << COLLECTOR_STEPS);
	for (unsigned bit = 0; bit < 40; bit++) {
		const struct collector_facts *facts = collector_facts(bit);
		if (!facts) {
			assert_null(collector_word(bit));
			continue;
		}
		assert_string_equal(facts->word, collector_word(bit));
		/* One that reports for others reports for itself. */
		assert_int_equal(collector_facts(facts->part_of)->part_of, facts->part_of);
		assert_int_equal(*facts->option != 0, facts->asked != ASKED_ALWAYS && facts->asked != ASKED_NEVER);
		/* A value is explained with its option. */
		assert_int_equal(*facts->help != 0, *facts->option != 0 && facts->asked != ASKED_VALUE);
		/* Or the option is another row's. */
		assert_true(!strchr(facts->option, '=') || facts->asked == ASKED_VALUE);
	}
	assert_null(collector_facts(COLLECTOR_COUNTERS));
	assert_string_equal(collector_word(COLLECTOR_PYTHON), "python");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_records),
		cmocka_unit_test(other_lengths),
		cmocka_unit_test(every_kind_at_every_length),
		cmocka_unit_test(unknown_kinds_are_skipped),
		cmocka_unit_test(ends),
		cmocka_unit_test(names),
		cmocka_unit_test(names_are_their_own),
		cmocka_unit_test(meanings),
		cmocka_unit_test(collectors),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
