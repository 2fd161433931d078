/* test_agent_nvtx.c - the NVTX collector on the real sink and a real segment. Objects with NVTX are played by this
 * file: tables of function pointers as nvtx_abi.h has them, and calls that go through them as NVTX's inline functions
 * do. */
#include "agent/core/collector.h"
#include "agent/nvtx/nvtx.h"
#include "agent/nvtx/nvtx_abi.h"
#include "agent/nvtx/step_range.h"
#include "agent/sink/control.h"
#include "proto/limits.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include <cmocka.h>

/* ---------------------------------------------------------------- objects */

#define IDS 16
struct object {
	nvtx_abi_function core[IDS], core2[IDS];
	nvtx_abi_function *core_table[IDS], *core2_table[IDS];
};
static struct object one, two;
static struct object *asking;

static void own_init(void)
{
}

static int get_table(int module, nvtx_abi_table *table, unsigned int *size)
{
	if (module != NVTX_ABI_MODULE_CORE && module != NVTX_ABI_MODULE_CORE2)
		return 0;
	*table = module == NVTX_ABI_MODULE_CORE ? asking->core_table : asking->core2_table;
	*size = module == NVTX_ABI_MODULE_CORE ? 16 : 15;
	return 1;
}

static const void *get_export_table(uint32_t id)
{
	static const struct nvtx_abi_callbacks callbacks = {sizeof callbacks, get_table};
	return id == NVTX_ABI_ETID_CALLBACKS ? &callbacks : NULL;
}

static void object_init(struct object *o)
{
	for (int i = 1; i < IDS; i++) {
		o->core_table[i] = &o->core[i];
		o->core2_table[i] = &o->core2[i];
		o->core[i] = o->core2[i] = own_init;
	}
	asking = o;
	assert_int_equal(nvtx_inject((void *)(uintptr_t)get_export_table), 1);
}

static int push(struct object *o, const char *name)
{
	int (*f)(const char *) = (int (*)(const char *))o->core[NVTX_ABI_CORE_RangePushA];
	return f ? f(name) : NVTX_ABI_NO_TRACKING;
}

static int pop(struct object *o)
{
	int (*f)(void) = (int (*)(void))o->core[NVTX_ABI_CORE_RangePop];
	return f ? f() : NVTX_ABI_NO_TRACKING;
}

static uint64_t start(struct object *o, const char *name)
{
	uint64_t (*f)(const char *) = (uint64_t(*)(const char *))o->core[NVTX_ABI_CORE_RangeStartA];
	return f ? f(name) : 0;
}

static void end(struct object *o, uint64_t id)
{
	void (*f)(uint64_t) = (void (*)(uint64_t))o->core[NVTX_ABI_CORE_RangeEnd];
	if (f)
		f(id);
}

static const void *domain_create(const char *name)
{
	return ((const void *(*)(const char *))one.core2[NVTX_ABI_CORE2_DomainCreateA])(name);
}

static const void *register_string(const void *domain, const char *text)
{
	return ((const void *(*)(const void *, const char *))one.core2[NVTX_ABI_CORE2_DomainRegisterStringA])(domain,
													      text);
}

static int domain_push(const void *domain, const struct nvtx_abi_attributes *a)
{
	return ((int (*)(const void *, const void *))one.core2[NVTX_ABI_CORE2_DomainRangePushEx])(domain, a);
}

static int domain_pop(const void *domain)
{
	return ((int (*)(const void *))one.core2[NVTX_ABI_CORE2_DomainRangePop])(domain);
}

/* ---------------------------------------------------------------- recordings */

static struct segment daemon_side, agent_side;
static uint32_t generation;

static void begin(const char *step_range, uint64_t bytes, uint32_t chunk_bytes)
{
	char sentence[256] = "";
	struct collector_request request = {1u << COLLECTOR_NVTX, ++generation, step_range, "", 0, 0, 0, 0, 0};
	assert_int_equal(segment_create(&daemon_side, generation, bytes, chunk_bytes), 0);
	assert_int_equal(segment_provide(&daemon_side, LIMIT_CHUNKS, LIMIT_STRINGS_BYTES), 0);
	assert_int_equal(segment_map(&agent_side, dup(daemon_side.fd), UINT64_MAX), 0);
	assert_int_equal(sink_prepare(&agent_side, generation, 0), 0);
	assert_int_equal(collector_nvtx.arm(&request, sentence, sizeof sentence), 0);
	assert_int_equal(collector_nvtx.start(&request, sentence, sizeof sentence), 0);
}

static void record(void)
{
	sink_begin(sink_now());
}

static void finish(void)
{
	uint64_t last = sink_now();
	sink_end(sink_now());
	sink_drain();
	collector_nvtx.stop();
	collector_nvtx.drain(last + 1000000000u);
	assert_int_equal(sink_finish(last, last + 1000000000u), 0);
	sink_release();
	collector_nvtx.disarm();
}

#define MOST 4096
static struct event_range ranges[MOST];
static struct event_mark marks[MOST];
static unsigned range_count, mark_count;

static void collect(void)
{
	static _Alignas(8) unsigned char bytes[LIMIT_CHUNK_BYTES];
	range_count = mark_count = 0;
	for (uint32_t i = 0; i < daemon_side.chunk_count; i++) {
		uint32_t sequence, thread;
		size_t at = 0, n = segment_copy_chunk(&daemon_side, i, bytes, &sequence, &thread);
		union event_any e;
		enum event_verdict verdict;
		while ((verdict = event_read(bytes, n, &at, &e)) == EVENT_OK) {
			if (e.head.kind == EVENT_RANGE && range_count < MOST)
				ranges[range_count++] = e.range;
			if (e.head.kind == EVENT_MARK && mark_count < MOST)
				marks[mark_count++] = e.mark;
		}
		assert_int_equal(verdict, EVENT_END);
	}
}

static const char *text(uint32_t id)
{
	static char to[LIMIT_STRING_BYTES + 1];
	uint32_t at = 0, found, type, bytes;
	while (segment_next_string(&daemon_side, &at, to, &found, &type, &bytes) == 1) {
		to[bytes] = 0;
		if (found == id)
			return to;
	}
	return "(none)";
}

static const struct event_range *named(const char *name)
{
	for (unsigned i = 0; i < range_count; i++)
		if (strcmp(text(ranges[i].name), name) == 0)
			return &ranges[i];
	fail_msg("no range %s", name);
	return NULL;
}

static uint64_t lost(enum loss loss, unsigned kind)
{
	return daemon_side.header->lost[loss][kind];
}

static void let_go(void)
{
	segment_deinit(&agent_side);
	segment_deinit(&daemon_side);
}

/* ---------------------------------------------------------------- tests */

static void test_idle(void **state)
{
	(void)state;
	object_init(&one);
	object_init(&two);
	assert_int_equal(nvtx_object_count(), 2);
	assert_null(one.core[NVTX_ABI_CORE_RangePushA]);
	assert_null(one.core[NVTX_ABI_CORE_RangePop]);
	assert_null(one.core2[NVTX_ABI_CORE2_DomainRangePushEx]);
	assert_non_null(one.core2[NVTX_ABI_CORE2_DomainCreateA]);
	assert_ptr_equal(one.core2[6], own_init); /* DomainResourceCreate is nothing of ours */
	object_init(&one);
	assert_int_equal(nvtx_object_count(), 2);
	assert_ptr_equal(domain_create("d"), domain_create("d"));
	assert_ptr_not_equal(domain_create("d"), domain_create("e"));
	assert_ptr_equal(register_string(NULL, "s"), register_string(NULL, "s"));
	assert_ptr_not_equal(register_string(NULL, "s"), register_string(domain_create("d"), "s"));
}

static void test_kinds(void **state)
{
	(void)state;
	const void *domain = domain_create("library"), *string = register_string(domain, "registered");
	((void (*)(const void *, uint32_t, const char *))one.core2[NVTX_ABI_CORE2_DomainNameCategoryA])(domain, 7,
													"copies");
	begin("", 1 << 20, LIMIT_CHUNK_BYTES_MIN);
	assert_int_equal(push(&one, "warm-up"), 0);
	record();
	assert_int_equal(pop(&one), 0);
	assert_int_equal(pop(&one), NVTX_ABI_NO_TRACKING);
	assert_int_equal(push(&one, "outer"), 0);
	assert_int_equal(push(&two, "inner"), 1);
	struct nvtx_abi_attributes a = {.version = 3,
					.size = sizeof a,
					.category = 7,
					.color_type = 1,
					.color = 0xff00ff00,
					.payload_type = 2,
					.payload = 42,
					.message_type = 3,
					.message = string};
	assert_int_equal(domain_push(domain, &a), 0);
	a.category = 8;
	a.message_type = 2;
	a.message = L"w\u00ef\u20ac\U0001f600";
	a.payload_type = 0x7fffffff;
	assert_int_equal(domain_push(domain, &a), 1);
	assert_int_equal(domain_pop(domain), 1);
	assert_int_equal(domain_pop(domain), 0);
	struct nvtx_abi_attributes shorter = {
		.size = 16, .color_type = 1, .color = 5, .message_type = 1, .message = "x"};
	assert_int_equal(domain_push((const void *)&a, &shorter), 2); /* no domain of ours: the default one */
	assert_int_equal(domain_pop(NULL), 2);
	assert_int_equal(domain_push(NULL, NULL), 2);
	assert_int_equal(pop(&one), 2);
	assert_int_equal(pop(&two), 1);
	assert_int_equal(pop(&one), 0);
	((void (*)(const char *))one.core[NVTX_ABI_CORE_MarkA])("mark");
	((void (*)(const void *))one.core[NVTX_ABI_CORE_MarkEx])(&a);
	((void (*)(const char *))one.core[NVTX_ABI_CORE_MarkA])(NULL);
	finish();
	assert_null(one.core[NVTX_ABI_CORE_RangePushA]);
	assert_null(two.core[NVTX_ABI_CORE_RangePop]);
	collect();
	assert_int_equal(range_count, 6);
	assert_int_equal(mark_count, 3);
	const struct event_range *r = named("registered"), *outer = named("outer"), *inner = named("inner");
	assert_string_equal(text(r->domain), "library");
	assert_string_equal(text(r->category), "copies");
	assert_int_equal(r->color, 0xff00ff00);
	assert_int_equal(r->payload_type, 2);
	assert_int_equal(r->payload, 42);
	assert_int_equal(r->parent, inner->id);
	assert_int_equal(inner->parent, outer->id);
	assert_int_equal(outer->self, outer->duration - inner->duration);
	r = named("w\u00ef\u20ac\U0001f600");
	assert_string_equal(text(r->category), "8");
	assert_int_equal(r->payload_type, 0);
	unsigned nameless = 0, coloured = 0;
	for (unsigned i = 0; i < range_count; i++) {
		nameless += ranges[i].name == 0;
		coloured += ranges[i].color == 5;
	}
	assert_int_equal(nameless, 2);
	assert_int_equal(coloured, 1);
	for (unsigned i = 0; i < LOSS_COUNT; i++)
		assert_int_equal(lost(i, EVENT_RANGE), 0);
	let_go();
}

static void *end_elsewhere(void *id)
{
	end(&two, *(uint64_t *)id);
	return NULL;
}

static void test_start_end(void **state)
{
	(void)state;
	pthread_t thread;
	begin("", 1 << 20, LIMIT_CHUNK_BYTES_MIN);
	record();
	uint64_t a = start(&one, "a"), b = start(&one, "b"), c = start(&one, "c");
	assert_true(a && b && c && a != b && b != c);
	end(&one, a);
	end(&one, a);
	end(&one, 12345);
	end(&one, UINT64_MAX);
	assert_int_equal(pthread_create(&thread, NULL, end_elsewhere, &b), 0);
	pthread_join(thread, NULL);
	finish();
	collect();
	assert_int_equal(range_count, 3);
	assert_int_equal(named("a")->end_thread, 0);
	assert_int_not_equal(named("b")->end_thread, 0);
	assert_int_equal(named("b")->head.flags, EVENT_FLAG_ASYNC);
	assert_int_equal(named("c")->head.flags, EVENT_FLAG_CLIPPED);
	assert_int_equal(lost(LOSS_CLIPPED, EVENT_RANGE), 1);
	let_go();
	begin("", 1 << 20, LIMIT_CHUNK_BYTES_MIN);
	record();
	end(&one, c);
	uint64_t d = start(&one, "d");
	assert_true(d != a && d != b && d != c);
	end(&one, d);
	finish();
	collect();
	assert_int_equal(range_count, 1);
	let_go();
}

static void test_too_deep(void **state)
{
	(void)state;
	begin("", 1 << 20, LIMIT_CHUNK_BYTES_MIN);
	record();
	for (int i = 0; i < SINK_DEPTH + 100; i++)
		assert_int_equal(push(&one, i == SINK_DEPTH - 1 ? "last" : "deep"), i);
	for (int i = SINK_DEPTH + 100; i-- > 0;)
		assert_int_equal(pop(&one), i);
	assert_int_equal(pop(&one), NVTX_ABI_NO_TRACKING);
	static uint64_t ids[70000];
	for (int i = 0; i < 70000; i++)
		ids[i] = start(&one, "open");
	for (int i = 0; i < 70000; i++)
		end(&one, ids[i]);
	finish();
	collect();
	assert_int_equal(named("last")->depth, SINK_DEPTH - 1);
	assert_int_equal(lost(LOSS_TOO_DEEP, EVENT_RANGE), 100 + 70000 - 65536);
	let_go();
}

#define THREADS 8
#define PAIRS 20000
static void *many(void *unused)
{
	for (int i = 0; i < PAIRS; i++) {
		push(&one, "p");
		uint64_t id = start(&two, "s");
		end(&one, id);
		pop(&one);
	}
	return unused;
}

static void test_exact(void **state)
{
	(void)state;
	pthread_t threads[THREADS];
	begin("", 1 << 17, LIMIT_CHUNK_BYTES_MIN);
	record();
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, many, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	finish();
	collect();
	assert_in_range(range_count, 100, MOST - 1);
	assert_int_equal(range_count + lost(LOSS_NO_SPACE, EVENT_RANGE), 2 * THREADS * PAIRS);
	assert_int_equal(lost(LOSS_TOO_DEEP, EVENT_RANGE), 0);
	assert_int_equal(lost(LOSS_REENTERED, EVENT_RANGE), 0);
	let_go();
}

static void test_foreign(void **state)
{
	(void)state;
	char sentence[256];
	nvtx_abi_function theirs = (nvtx_abi_function)(uintptr_t)abort; /* another object's */
	two.core[NVTX_ABI_CORE_RangePushA] = theirs;
	begin("", 1 << 20, LIMIT_CHUNK_BYTES_MIN);
	assert_ptr_equal(two.core[NVTX_ABI_CORE_RangePushA], theirs);
	assert_int_equal(collector_nvtx.probe(sentence, sizeof sentence), 1);
	assert_non_null(strstr(sentence, "held by another tool ("));
	finish();
	assert_ptr_equal(two.core[NVTX_ABI_CORE_RangePushA], theirs);
	let_go();
	two.core[NVTX_ABI_CORE_RangePushA] = NULL;
}

static void test_step_range(void **state)
{
	(void)state;
	assert_false(step_range_wanted());
	step_range_set("st*p");
	assert_true(step_range_wanted());
	assert_true(step_range_matches("step", 4, 0, 0));
	for (int i = 0; i < 2; i++) {
		assert_true(step_range_matches("step", 4, 1, 77));
		assert_false(step_range_matches("other", 5, 1, 78));
	}
	/* Only the pop that belongs to the push, in its domain, whatever else is pushed on it. */
	assert_false(step_range_pop(0));
	step_range_push(0, 1);
	step_range_push(0, 0);
	step_range_push(5, 1);
	assert_false(step_range_pop(0));
	assert_true(step_range_pop(5));
	assert_true(step_range_pop(0));
	assert_false(step_range_pop(0));
	/* Of those that lie in each other the outermost. */
	step_range_push(0, 1);
	step_range_push(0, 1);
	step_range_push(0, 0);
	assert_false(step_range_pop(0));
	assert_false(step_range_pop(0));
	assert_true(step_range_pop(0));
	/* Deeper than is followed: the outer one is still found. */
	step_range_push(0, 1);
	for (int i = 0; i < 1000; i++)
		step_range_push(0, 0);
	for (int i = 0; i < 1000; i++)
		assert_false(step_range_pop(0));
	assert_true(step_range_pop(0));
	/* What an earlier capture left open is forgotten. */
	step_range_push(0, 1);
	step_range_set("x");
	assert_false(step_range_pop(0));
	step_range_set(NULL);
	assert_false(step_range_wanted());
}

static void test_names(void **state)
{
	(void)state;
	/* Longer than is kept: cut and counted, as ASCII, wide and registered. */
	static char text_long[40000];
	static wchar_t wide_long[20001];
	memset(text_long, 'n', sizeof text_long - 1);
	for (int i = 0; i < 20000; i++)
		wide_long[i] = 0x20ac;
	const void *registered = register_string(NULL, text_long);
	struct nvtx_abi_attributes a = {.version = 3, .size = sizeof a, .message_type = 3, .message = registered};
	begin("", 1 << 20, LIMIT_CHUNK_BYTES_MIN);
	record();
	push(&one, text_long);
	pop(&one);
	((int (*)(const wchar_t *))one.core[NVTX_ABI_CORE_RangePushW])(wide_long);
	pop(&one);
	for (int i = 0; i < 2; i++) {
		domain_push(NULL, &a);
		domain_pop(NULL);
	}
	/* Handles that are none of ours. */
	a.message = text_long;
	domain_push(text_long, &a);
	domain_pop(text_long);
	a.message = (const char *)registered + 1;
	domain_push((const char *)registered + 8, &a);
	domain_pop((const char *)registered + 8);
	finish();
	collect();
	assert_int_equal(range_count, 6);
	assert_int_equal(lost(LOSS_TRUNCATED, EVENT_RANGE), 4);
	unsigned without = 0;
	for (unsigned i = 0; i < range_count; i++) {
		without += ranges[i].name == 0;
		if (ranges[i].name)
			assert_in_range(strlen(text(ranges[i].name)), LIMIT_STRING_BYTES - 3, LIMIT_STRING_BYTES);
	}
	assert_int_equal(without, 2);
	let_go();
	/* More strings than are kept: a handle still, whose events are counted as nameless. */
	char name[32];
	const void *last = NULL, *before = NULL;
	for (int i = 0; i < 40000; i++) {
		snprintf(name, sizeof name, "string %d", i);
		before = last;
		last = register_string(NULL, name);
		assert_non_null(last);
	}
	assert_ptr_equal(last, before);
	assert_non_null(domain_create("one too many"));
	a.message = last;
	begin("", 1 << 20, LIMIT_CHUNK_BYTES_MIN);
	record();
	domain_push(domain_create("one too many"), &a);
	domain_pop(domain_create("another"));
	finish();
	collect();
	assert_int_equal(range_count, 1);
	assert_int_equal(ranges[0].name, 0);
	assert_string_equal(text(ranges[0].domain), "(more domains than are kept apart)");
	assert_int_equal(lost(LOSS_NAMELESS, EVENT_RANGE), 1);
	let_go();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_idle),	   cmocka_unit_test(test_kinds), cmocka_unit_test(test_start_end),
		cmocka_unit_test(test_too_deep),   cmocka_unit_test(test_exact), cmocka_unit_test(test_foreign),
		cmocka_unit_test(test_step_range), cmocka_unit_test(test_names),
	};
	if (sink_init() < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
