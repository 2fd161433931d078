/* test_plausible.c - what a hostile record may claim: each member of each kind is set to what its role forbids, and to the
 * last values that it allows. */
#include "proto/limits.h"
#include "proto/columns.h"
#include "proto/plausible.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define BASE (PLAUSIBLE_SPAN_MAX * 3)
#define STRINGS 4096u

/* What MOST(n) allows; of the other roles nothing. */
#define MOST_TIME 0
#define MOST_TIME_OR_NONE 0
#define MOST_SPAN 0
#define MOST_SELF 0
#define MOST_ID 0
#define MOST_STRING 0
#define MOST_INPUTS 0
#define MOST_THREAD 0
#define MOST_CORRELATION 0
#define MOST_CORRELATION_OR_NONE 0
#define MOST_BYTES 0
#define MOST_INT 0
#define MOST_MOST(most) (most)
#define MOST_BITS 0
#define MOST_REAL 0
#define MOST_SKIP 0

static const struct member {
	unsigned kind;
	size_t at, bytes;
	const char *role, *name;
	uint64_t most;
} members[] = {
#define FIELD(NAME, name, offset, type, member, role, column, description)                                             \
	{EVENT_##NAME, (offset), sizeof(type), #role, #name "." #member, MOST_##role},
#include "proto/events.def"
};

static bool has_role(const struct member *member, const char *role)
{
	size_t n = strlen(role);
	return strncmp(member->role, role, n) == 0 && (member->role[n] == 0 || member->role[n] == '(');
}

static void set(union event_any *event, const struct member *member, uint64_t value)
{
	memcpy((char *)event + member->at, &value, member->bytes);
}

static void set_real(union event_any *event, const struct member *member, double value)
{
	uint64_t bits;
	memcpy(&bits, &value, sizeof bits);
	set(event, member, bits);
}

/* A record of which nothing is known but what has to be. */
static union event_any least(unsigned kind)
{
	union event_any event;
	memset(&event, 0, sizeof event);
	event.head.kind = (uint8_t)kind;
	for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
		if (members[i].kind == kind && has_role(&members[i], "TIME"))
			set(&event, &members[i], BASE);
		if (members[i].kind == kind && has_role(&members[i], "CORRELATION"))
			set(&event, &members[i], 1);
	}
	return event;
}

static void check(const struct member *member, uint64_t value, bool good)
{
	struct plausible_bounds bounds = plausible_around(BASE, STRINGS);
	union event_any event = least(member->kind);
	set(&event, member, value);
	if (plausible(&event, &bounds) != good)
		fail_msg("%s = %llu: taken for %s", member->name, (unsigned long long)value, good ? "bad" : "good");
}

static void every_member(void **state)
{
	(void)state;
	struct plausible_bounds bounds = plausible_around(BASE, STRINGS);
	for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
		const struct member *m = &members[i];
		const uint64_t all = m->bytes == 8 ? UINT64_MAX : (1ull << 8 * m->bytes) - 1;
		if (has_role(m, "TIME") || has_role(m, "TIME_OR_NONE")) {
			check(m, 0, has_role(m, "TIME_OR_NONE"));
			check(m, BASE + PLAUSIBLE_SPAN_MAX, true);
			check(m, BASE - PLAUSIBLE_SPAN_MAX, true);
			check(m, BASE + PLAUSIBLE_SPAN_MAX + 1, false);
			check(m, BASE - PLAUSIBLE_SPAN_MAX - 1, false);
			check(m, all, false);
		} else if (has_role(m, "SPAN") || has_role(m, "BYTES")) {
			uint64_t most = has_role(m, "SPAN") ? PLAUSIBLE_SPAN_MAX : PLAUSIBLE_BYTES_MAX;
			check(m, most, true);
			check(m, most + 1, false);
			check(m, all, false);
		} else if (has_role(m, "SELF")) {
			check(m, 0, true);
			check(m, 1, false); /* of a duration of 0 */
		} else if (has_role(m, "ID") || (has_role(m, "INT") && m->bytes == 8)) {
			check(m, INT64_MAX, true);
			check(m, 1ull << 63, false);
		} else if (has_role(m, "STRING") || has_role(m, "INPUTS")) {
			check(m, STRINGS / 8 - 1, true);
			check(m, STRINGS / 8, false);
			check(m, all, false);
		} else if (has_role(m, "THREAD")) {
			check(m, PLAUSIBLE_THREAD_MAX, true);
			check(m, PLAUSIBLE_THREAD_MAX + 1, false);
			check(m, all, false);
		} else if (has_role(m, "CORRELATION")) {
			check(m, all, true);
			check(m, 0, false);
		} else if (has_role(m, "MOST")) {
			check(m, m->most, true);
			check(m, m->most + 1, false);
			check(m, all, false);
		} else if (has_role(m, "REAL")) {
			union event_any event = least(m->kind);
			const double good[] = {0, -1e308, 0.1}, bad[] = {NAN, INFINITY, -INFINITY};
			for (size_t k = 0; k < 3; k++) {
				set_real(&event, m, good[k]);
				assert_true(plausible(&event, &bounds));
				set_real(&event, m, bad[k]);
				assert_false(plausible(&event, &bounds));
			}
		} else if (has_role(m, "INT") || has_role(m, "BITS") || has_role(m, "SKIP") ||
			   has_role(m, "CORRELATION_OR_NONE")) {
			check(m, all, true);
		} else {
			fail_msg("%s: nothing is said here of role %s", m->name, m->role);
		}
	}
}

static void steps(void **state)
{
	(void)state;
	struct plausible_bounds bounds = plausible_around(BASE, STRINGS);
	for (unsigned kind = 0; kind < EVENT_KIND_COUNT + 8; kind++) {
		union event_any event = least(kind);
		event.head.step = LIMIT_STEPS;
		assert_int_equal(plausible(&event, &bounds), event_create_table(kind) != NULL);
		event.head.step++;
		assert_false(plausible(&event, &bounds));
	}
}

static void bounds_of_time(void **state)
{
	(void)state;
	struct plausible_bounds bounds = plausible_around(0, 0);
	assert_int_equal(bounds.first, 1);
	assert_int_equal(bounds.last, PLAUSIBLE_TIME_MAX);
	/* A machine that has just started. */
	bounds = plausible_around(5, 0);
	assert_int_equal(bounds.first, 1);
	assert_int_equal(bounds.last, 5 + PLAUSIBLE_SPAN_MAX);
	bounds = plausible_around(UINT64_MAX, 0);
	assert_int_equal(bounds.last, PLAUSIBLE_TIME_MAX);
}

static void times(void **state)
{
	(void)state;
	union event_any event = {.session = {.head = {.kind = EVENT_SESSION}, .missing_from = 9}};
	assert_int_equal(event_time(&event), 9);
	event = (union event_any){.kernel = {.head = {.kind = EVENT_KERNEL}, .start = 3, .queued = 2}};
	assert_int_equal(event_time(&event), 3);
	event_set_time(&event, 5);
	assert_int_equal(event.kernel.start, 5);
	assert_int_equal(event.kernel.queued, 2);
	event = (union event_any){.thread = {.head = {.kind = EVENT_THREAD}, .pthread = 4}};
	event_set_time(&event, 5);
	assert_int_equal(event_time(&event), 0);
}

/* A kind that is placed by its time has one, and one that is placed by its call has an id by which that is found. */
static void places(void **state)
{
	(void)state;
	for (unsigned kind = 0; kind < EVENT_KIND_COUNT; kind++) {
		union event_any event = least(kind);
		for (size_t i = 0; i < sizeof members / sizeof *members; i++)
			if (members[i].kind == kind && has_role(&members[i], "TIME_OR_NONE"))
				set(&event, &members[i], BASE);
			else if (members[i].kind == kind && has_role(&members[i], "CORRELATION_OR_NONE"))
				set(&event, &members[i], 7);
		enum event_place place = event_place_of(kind);
		if (place != PLACE_NONE)
			assert_int_equal(event_time(&event), BASE);
		event_set_time(&event, BASE + 1);
		if (place != PLACE_NONE)
			assert_int_equal(event_time(&event), BASE + 1);
		if (place == PLACE_CALL)
			assert_true(event_correlation(&event) > 0);
		assert_int_equal(event_is_fact(kind), event_create_table(kind) && place == PLACE_NONE);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_member), cmocka_unit_test(steps),  cmocka_unit_test(bounds_of_time),
		cmocka_unit_test(times),	cmocka_unit_test(places),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
