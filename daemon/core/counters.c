/* counters.c - see counters.h. Thread: the loop's. No locks. */
#include "counters.h"

#include <string.h>

#define MICROSECOND 1000ull
#define MILLISECOND 1000000ull
#define SECOND 1000000000ull
static const uint64_t loop_bounds[] = {100 * MICROSECOND, MILLISECOND,	     5 * MILLISECOND,	10 * MILLISECOND,
				       50 * MILLISECOND,  100 * MILLISECOND, 500 * MILLISECOND, SECOND,
				       5 * SECOND,	  10 * SECOND};
static const uint64_t derive_bounds[] = {10 * MILLISECOND, 50 * MILLISECOND, 100 * MILLISECOND, 500 * MILLISECOND,
					 SECOND,	   2 * SECOND,	     5 * SECOND,	10 * SECOND,
					 30 * SECOND,	   60 * SECOND,	     300 * SECOND};
#define BOUNDS(array) (array), sizeof(array) / sizeof *(array)

void counters_init(struct counters *counters)
{
	counters->derive = (struct histogram){BOUNDS(derive_bounds), {0}, 0};
	counters->latency = counters->turn = (struct histogram){BOUNDS(loop_bounds), {0}, 0};
}

void counters_tick(struct counters *counters, uint64_t now, uint64_t interval)
{
	if (counters->tick_due)
		histogram_add(&counters->latency, now > counters->tick_due ? now - counters->tick_due : 0);
	counters->tick_due = interval ? now + interval : 0;
}

void counters_late(struct counters *counters, uint64_t ns)
{
	histogram_add(&counters->latency, ns);
}

void counters_captured(struct counters *counters, const struct capture_facts *facts, const uint64_t lost[LOSS_COUNT],
		       uint64_t taken, uint64_t finish_ns)
{
	if (facts->status < CAPTURE_STATUS_COUNT && facts->reason_code < COUNTERS_REASONS)
		counters->captures[facts->status][facts->reason_code]++;
	if (facts->status == CAPTURE_FAILED) {
		/* There is no file: the records that had come in are lost with it. */
		counters->unwritten += taken;
	} else {
		counters->events += facts->events;
		counters->steps += facts->steps_recorded;
	}
	for (unsigned loss = 0; loss < LOSS_COUNT; loss++)
		counters->lost[loss] += lost[loss];
	histogram_add(&counters->derive, finish_ns);
}

void counters_triggered(struct counters *counters, enum error error)
{
	if ((unsigned)error < COUNTERS_ERRORS)
		counters->triggers[error]++;
}

void counters_audited(struct counters *counters, const char *outcome)
{
	/* What is not the word of an error is FAILED to error_from_word. */
	enum error error = error_from_word(outcome);
	if ((unsigned)error < COUNTERS_ERRORS && error_word(error) && strcmp(error_word(error), outcome) == 0)
		counters->refusals[error]++;
}

void counters_deleted(struct counters *counters, const char *reason, uint64_t captures, uint64_t bytes)
{
	static const char *const words[] = {
#define ROW(word) #word,
		COUNTERS_DELETED(ROW)
#undef ROW
	};
	unsigned i = 0;
	while (i < COUNTERS_DELETED_other && strcmp(words[i], reason) != 0)
		i++;
	counters->deleted[i] += captures;
	counters->deleted_bytes[i] += bytes;
}
