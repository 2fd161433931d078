/* after.c - see after.h. */
#include "after.h"
#include "control.h"
#include "link.h"
#include "agent/sink/sink.h"
#include "steps/counter.h"

#define SECOND 1000000000ull
/* After this many steps AFTER is sent, and after this time at the latest. */
#define STEPS 8
#define MOST_NS (20 * SECOND)
/* The median is taken over so many steps at most. */
#define MEDIAN_STEPS 64

static struct after {
	uint64_t capture, from, until;
} after;

void after_begin(uint64_t capture)
{
	after = (struct after){capture, steps_count(), sink_now() + MOST_NS};
}

uint64_t after_work(uint64_t now)
{
	if (!after.capture)
		return UINT64_MAX;
	uint64_t steps = steps_count() - after.from;
	if (steps <= STEPS && now < after.until) {
		/* The next look is when enough steps should have passed, not earlier. */
		uint64_t median = steps_median(steps_count(), STEPS, NULL);
		uint64_t nap = median ? median * (STEPS + 1 - steps) + SECOND / 100 : SECOND;
		return nap < after.until - now ? now + nap : after.until;
	}
	struct message_after m = MESSAGE_INIT(AFTER, after);
	m.capture = after.capture;
	/* The first step after the capture does not count: it includes the drain. */
	uint32_t most = steps > 1 ? (uint32_t)(steps - 1 < MEDIAN_STEPS ? steps - 1 : MEDIAN_STEPS) : 0;
	m.step_after = most ? steps_median(steps_count(), most, &m.steps) : 0;
	if (m.step_after)
		link_send(&m, -1);
	after.capture = 0;
	return UINT64_MAX;
}

void after_forget(void)
{
	after.capture = 0;
}
