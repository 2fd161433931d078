/* stamp.h - the times of what the agent records, by CLOCK_MONOTONIC.
 *
 * Asking the kernel for the time twice is up to half of what an event costs. So while something is recorded the hooks
 * read the processor's counter, which costs less, and compute the kernel's time from it by a linear function, the line.
 * Ten times a second the agent's thread measures the error of the line, and changes its slope so that the error is gone
 * at the next look. There is a line only where the kernel keeps its own time by the same counter. Everywhere else, and
 * where the error is too large, the hooks ask the kernel. */
#ifndef PROFD_AGENT_CORE_STAMP_H
#define PROFD_AGENT_CORE_STAMP_H

#include "clock.h"

#include <stdatomic.h>

/* At `ticks` of the counter the time is `time`; each tick adds `rate` / 2^32 ns. Only the agent's thread writes it.
 * `turn` is odd while it writes, and 0 where there is no line. */
struct stamp_line {
	_Alignas(64) _Atomic uint32_t turn;
	_Atomic uint64_t ticks, time;
	_Atomic int64_t rate;
};

extern struct stamp_line stamp_line;

static inline uint64_t stamp_on_line(uint64_t since, int64_t ticks, int64_t rate)
{
	/* `ticks` is negative where the counter was read just before the line was set. */
	return since + (uint64_t)(((__int128)ticks * rate) >> 32);
}

/* CLOCK_MONOTONIC ns for what is recorded. Any thread, also in a signal handler. */
static inline uint64_t stamp_now(void)
{
#ifdef __x86_64__
	uint32_t turn = atomic_load_explicit(&stamp_line.turn, memory_order_acquire);
	if (turn && !(turn & 1)) {
		uint64_t from = atomic_load_explicit(&stamp_line.ticks, memory_order_relaxed);
		uint64_t time = atomic_load_explicit(&stamp_line.time, memory_order_relaxed);
		int64_t rate = atomic_load_explicit(&stamp_line.rate, memory_order_relaxed);
		time = stamp_on_line(time, (int64_t)(__builtin_ia32_rdtsc() - from), rate);
		atomic_thread_fence(memory_order_acquire);
		if (__builtin_expect(atomic_load_explicit(&stamp_line.turn, memory_order_relaxed) == turn, 1))
			return time;
	}
#endif
	return clock_now();
}

/* --- agent's thread --- */

/* A recording begins to warm up. */
void stamp_begin(void);

/* What stamp_begin() reads, and stamp_follow() from then on. */
struct stamp_source {
	const char *path;	   /* the file that names the kernel's clock source */
	uint64_t (*counter)(void); /* the processor's */
	uint64_t (*clock)(void);   /* the kernel's */
};

/* stamp_begin() with another source, which must stay valid until stamp_end(). */
void stamp_begin_with(const struct stamp_source *source);
/* Looks at the line if that is due. Returns when it is due again, CLOCK_MONOTONIC ns; UINT64_MAX: not in this
 * recording. */
uint64_t stamp_follow(uint64_t now);
/* Ends the line. Returns the largest error in ns that was seen since stamp_begin(); 0 where there was no line. */
uint64_t stamp_end(void);

/* Takes the counter and the kernel's clock at one instant, and corrects the line. False: the line does not agree with
 * the clock, and there is no line from here on. */
int stamp_meet(uint64_t ticks, uint64_t time);

#endif
